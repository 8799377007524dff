/*
 * command/config/server.c - see server.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/config/command.h"
#include "command/config/install_paths.h"
#include "command/config/server.h"
#include "util/address/server_addresses.h"
#include "util/address/token.h"

#define BLANKS " \t\r\n"

static const char CHOICE[] = {CK_SERVERS_OR, '\0'};

/* The section that a text with devices names, as lab/0,1 does; *@devices: they. *@entry is NULL:
 * none. -EINVAL, printed: one whose address has devices or several servers already. */
static int find_with_devices(const struct ckx_config *config, const char *text,
			     const struct ckx_entry **entry, const char **devices)
{
	static struct ck_server_list list;
	char why[CK_ADDRESS_WHY];
	size_t length;

	*entry = NULL;
	*devices = ck_address_devices(text, strlen(text), &length);
	if (!*devices || ck_servers_parse(text, &list, why) < 0 || list.count > 1)
		return 0;
	*entry = ckx_config_find(config, list.entries[0].address);
	if (!*entry || !ck_servers_is_list((*entry)->address))
		return 0;
	ckx_error("%s: [%s] address = %s is a list: devices are written behind its addresses, as "
		  "in HOST/0,1",
		  text, (*entry)->name, (*entry)->address);
	return -EINVAL;
}

static int take_address(struct ckx_server *s, const struct ckx_entry *e, const char *devices)
{
	char address[2 * CKX_TEXT];

	strcpy(address, e->address);
	if (devices)
		snprintf(address + strlen(address), CKX_TEXT, "%s%s",
			 ck_address_path(address) ? "//" : "/", devices);
	if (strlen(address) >= sizeof(s->address)) {
		ckx_error("the address is too long: %s", address);
		return -EINVAL;
	}
	strcpy(s->name, e->name);
	strcpy(s->address, address);
	strcpy(s->devices, devices ? "" : e->devices);
	return 0;
}

/* The section that @s->address names; or one with this address, for whom to trust and which token
 * to send. */
static int take_section(struct ckx_server *s, const struct ckx_config *config,
			char token_file[CKX_TEXT])
{
	const struct ckx_entry *e = ckx_config_find(config, s->address);
	const char *devices = NULL;
	int ret = 0;

	if (!e)
		ret = find_with_devices(config, s->address, &e, &devices);
	if (ret == 0 && e)
		ret = take_address(s, e, devices);
	else if (ret == 0)
		e = ckx_config_find_address(config, s->address);
	if (ret == 0 && e) {
		s->tls = e->tls;
		strcpy(token_file, e->token_file);
	}
	return ret;
}

/* A copied address may have white space around it, and a / at its end as in a URL. */
static size_t tidy_length(const char *text)
{
	size_t length = strlen(text);

	while (length > 0 && strchr(BLANKS, text[length - 1]))
		length--;
	while (length > 1 && text[length - 1] == '/' && text[length - 2] != '/' &&
	       !ck_address_path(text))
		length--;
	return length;
}

static int set_address(struct ckx_server *s, const struct ckx_config *config, const char *text,
		       char token_file[CKX_TEXT])
{
	size_t length;

	text += strspn(text, BLANKS);
	length = tidy_length(text);
	if (length == 0) {
		ckx_error("%s names no server: it is empty", s->origin);
		return -EINVAL;
	}
	if (length >= sizeof(s->address)) {
		ckx_error("the address is too long: %s", text);
		return -EINVAL;
	}
	memcpy(s->address, text, length);
	s->address[length] = '\0';
	return take_section(s, config, token_file);
}

int ckx_server_is_emulated(const char *option)
{
	struct ckx_config *config;
	int ret;

	if (!option || strcasecmp(option, CKX_EMULATED) != 0)
		return 0;
	config = malloc(sizeof(*config));
	ret = config ? ckx_config_read(config) : -ENOMEM;
	if (ret == 0)
		ret = !ckx_config_find(config, option);
	free(config);
	return ret;
}

bool ckx_server_next(struct ckx_server *s)
{
	char others[CKX_TEXT];
	size_t length = strcspn(s->others, CHOICE);

	if (!s->others[0])
		return false;
	strcpy(others, s->others);
	snprintf(s->address, sizeof(s->address), "%.*s", (int)length, others);
	snprintf(s->others, sizeof(s->others), "%s", others + length + (others[length] != '\0'));
	return true;
}

static int reject_emulated(void)
{
	ckx_error("-s " CKX_EMULATED " is for `cricket run`, `docker` and `podman`, which start an "
		  "emulated GPU for their program alone; a host of this name is " CKX_EMULATED
		  ":9909");
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
		if (ret == 0 && !s->name[0] && strcasecmp(option, CKX_EMULATED) == 0)
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
	if (ret == 0 && strchr(s->address, CK_SERVERS_OR)) {
		strcpy(s->others, s->address);
		ckx_server_next(s);
	}
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
	if (s->name[0] && strcmp(s->name, s->address) != 0)
		snprintf(out, 2 * CKX_TEXT + 8, "%s (%s)", s->name, s->address);
	else
		snprintf(out, 2 * CKX_TEXT + 8, "%s", s->address[0] ? s->address : "this host");
	return out;
}

/* Print the sections of the configuration that may be meant by @name; no host has this name. */
static void print_sections(const char *name)
{
	struct ckx_config *config = malloc(sizeof(*config));
	const struct ckx_entry *e = NULL;

	if (config && ckx_config_read(config) == 0) {
		const char *file = config->own[0] ? config->own : CKX_SYSTEM_CONFIG;

		e = ckx_config_find(config, name);
		if (e)
			ckx_error("  [%s] is a section of %s: alone, or with devices as in "
				  "%s/0, its name stands for its address, %s",
				  e->name, e->file, e->name, e->address);
		else if (config->count == 0)
			ckx_error("  no section [%s]: %s has none", name, file);
		else
			ckx_error("  no section [%s] in %s; there are:", name, file);
		for (size_t i = 0; !e && i < config->count; i++)
			ckx_error("    [%s] address = %s", config->servers[i].name,
				  config->servers[i].address);
		if (!e)
			ckx_error("  check the spelling of the name, or give an IP address");
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

/* DNS may know the servers of @address later only if no name server answers now. */
static bool names_servers(const char *address, char why[CK_SERVER_ADDRESSES_WHY])
{
	struct ck_server_addresses *places = malloc(sizeof(*places));
	int ret = places ? ck_server_addresses_find(address, places, why) : 0;

	free(places);
	return ret == 0 || ret == -EAGAIN;
}

/* A list of servers, without others for the case that it fails. */
static int check_list(const struct ckx_server *s, const char *text, bool look_up)
{
	static struct ck_server_list list;
	struct ck_address address;
	char why[CK_SERVER_ADDRESSES_WHY];

	if (ck_servers_parse(text, &list, why) < 0) {
		ckx_error("%s%s: %s", s->name[0] ? "address = " : s->option, text, why);
		return -ENXIO;
	}
	for (unsigned int i = 0; look_up && i < list.count; i++) {
		if (!names_servers(list.entries[i].address, why)) {
			ckx_error("%s: %s", list.entries[i].address, why);
			return -ENXIO;
		}
		if (!is_known(&list.entries[i], &address)) {
			ckx_server_unknown(s, address.host);
			return -ENXIO;
		}
	}
	return 0;
}

int ckx_server_check(const struct ckx_server *s, bool look_up)
{
	struct ckx_server next = *s;
	int ret;

	do
		ret = check_list(s, next.address, look_up);
	while (ret == 0 && ckx_server_next(&next));
	explicit_bzero(next.token, sizeof(next.token));
	return ret;
}

int ckx_server_one(struct ckx_server *s)
{
	static struct ck_server_list list;
	char why[CK_ADDRESS_WHY];
	int ret = ckx_server_check(s, true);

	if (ret == 0)
		ret = ck_servers_parse(s->address, &list, why);
	if (ret < 0)
		return ret;
	if (list.count > 1) {
		ckx_error("%s%s: several servers: name one of them", s->option, s->address);
		return -E2BIG;
	}
	strcpy(s->address, list.entries[0].address);
	return 0;
}
