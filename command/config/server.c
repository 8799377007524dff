/*
 * command/config/server.c - see server.h.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/config/command.h"
#include "command/config/install_paths.h"
#include "command/config/server.h"
#include "util/address/servers.h"
#include "util/address/token.h"

/* The section that has @text as its name; or one with this address, for whom to trust and which
 * token to send. */
static void take_section(struct ckx_server *s, const struct ckx_config *config, const char *text,
			 char token_file[CKX_TEXT])
{
	const struct ckx_entry *e = ckx_config_find(config, text);

	if (e) {
		strcpy(s->name, e->name);
		strcpy(s->address, e->address);
		strcpy(s->devices, e->devices);
	} else {
		e = ckx_config_find_address(config, text);
	}
	if (e) {
		s->tls = e->tls;
		strcpy(token_file, e->token_file);
	}
}

static int set_address(struct ckx_server *s, const struct ckx_config *config, const char *text,
		       char token_file[CKX_TEXT])
{
	if (strlen(text) >= sizeof(s->address)) {
		ckx_error("the address is too long: %s", text);
		return -EINVAL;
	}
	strcpy(s->address, text);
	take_section(s, config, text, token_file);
	return 0;
}

int ckx_server_is_emulated(const char *option)
{
	struct ckx_config *config;
	int ret;

	if (!option || strcmp(option, CKX_EMULATED) != 0)
		return 0;
	config = malloc(sizeof(*config));
	ret = config ? ckx_config_read(config) : -ENOMEM;
	if (ret == 0)
		ret = !ckx_config_find(config, option);
	free(config);
	return ret;
}

static int reject_emulated(void)
{
	ckx_error("-s " CKX_EMULATED " is for `cricket run`, which starts an emulated GPU for its "
		  "program alone; a host of this name is " CKX_EMULATED ":9909");
	return -EINVAL;
}

int ckx_server_name(const char *option, struct ckx_server *s, char token_file[CKX_TEXT])
{
	const char *variable = getenv("REMOTE_GPU_ADDRESS");
	struct ckx_config *config = malloc(sizeof(*config));
	int ret = config ? ckx_config_read(config) : -ENOMEM;

	*s = (struct ckx_server){.origin = "the default", .option = ""};
	token_file[0] = '\0';
	if (ret == 0 && option) {
		s->origin = "the option";
		s->option = "-s ";
		ret = set_address(s, config, option, token_file);
		if (ret == 0 && !s->name[0] && strcmp(option, CKX_EMULATED) == 0)
			ret = reject_emulated();
	} else if (ret == 0 && variable && *variable) {
		s->origin = "REMOTE_GPU_ADDRESS";
		s->option = "REMOTE_GPU_ADDRESS=";
		ret = set_address(s, config, variable, token_file);
	} else if (ret == 0 && config->chosen[0]) {
		s->origin = "the configuration";
		s->option = "server = ";
		ret = set_address(s, config, config->chosen, token_file);
	}
	free(config);
	return ret;
}

int ckx_server_find(const char *option, struct ckx_server *s)
{
	const char *variable;
	char file[CKX_TEXT];
	int ret = ckx_server_name(option, s, file);

	if (ret < 0)
		return ret;
	if (ck_token_is_set()) {
		ret = ck_token_find(s->token, &variable);
		if (ret < 0)
			ckx_error("%s: the token cannot be read: %s", variable, strerror(-ret));
		return ret;
	}
	if (file[0])
		return ckx_token_read(file, s->token);
	return s->address[0] ? ckx_token_find(s->address, s->token) : 0;
}

const char *ckx_server_text(const struct ckx_server *s, char out[2 * CKX_TEXT + 8])
{
	if (s->name[0])
		snprintf(out, 2 * CKX_TEXT + 8, "%s (%s)", s->name, s->address);
	else
		snprintf(out, 2 * CKX_TEXT + 8, "%s", s->address[0] ? s->address : "this host");
	return out;
}

static void print_sections(const char *name)
{
	struct ckx_config *config = malloc(sizeof(*config));

	if (config && ckx_config_read(config) == 0) {
		const char *file = config->own[0] ? config->own : CKX_SYSTEM_CONFIG;

		if (config->count == 0)
			ckx_error("  no section [%s]: %s has none", name, file);
		else
			ckx_error("  no section [%s] in %s; there are:", name, file);
		for (size_t i = 0; i < config->count; i++)
			ckx_error("    [%s] address = %s", config->servers[i].name,
				  config->servers[i].address);
	}
	free(config);
}

void ckx_server_unknown(const struct ckx_server *s, const char *host)
{
	if (s->name[0]) {
		ckx_error("[%s] address = %s: no host has the name %s", s->name, s->address, host);
		return;
	}
	ckx_error("%s%s: no host has the name %s", s->option, s->address, host);
	print_sections(host);
}

static bool is_known(const struct ck_server_entry *entry, struct ck_address *address)
{
	struct addrinfo *list = NULL;
	char why[CK_ADDRESS_WHY];
	int error;

	if (ck_address_parse(entry->address, address, why) < 0 || address->kind != CK_ADDRESS_TCP)
		return true;
	error = getaddrinfo(address->host, NULL, NULL, &list);
	if (error == 0)
		freeaddrinfo(list);
	return error != EAI_NONAME;
}

int ckx_server_look_up(const struct ckx_server *s)
{
	struct ck_server_list *list = malloc(sizeof(*list));
	struct ck_address address;
	char why[CK_ADDRESS_WHY];
	int ret = list ? 0 : -ENOMEM;

	if (ret == 0 && ck_servers_parse(s->address, list, why) == 0) {
		for (unsigned int i = 0; ret == 0 && i < list->count; i++)
			ret = is_known(&list->entries[i], &address) ? 0 : -ENXIO;
	}
	if (ret == -ENXIO)
		ckx_server_unknown(s, address.host);
	free(list);
	return ret;
}
