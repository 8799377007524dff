/*
 * command/server.c - see server.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/command.h"
#include "command/server.h"

/* The section that has @text as its name; or one with this address, for whom to trust and which token to send. */
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

static int take(struct ckx_server *s, const struct ckx_config *config, const char *text,
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

int ckx_server_name(const char *option, struct ckx_server *s, char token_file[CKX_TEXT])
{
	const char *variable = getenv("REMOTE_GPU_ADDRESS");
	struct ckx_config *config = malloc(sizeof(*config));
	int ret = config ? ckx_config_read(config) : -ENOMEM;

	*s = (struct ckx_server){.origin = "nothing names another"};
	token_file[0] = '\0';
	if (ret == 0 && option) {
		s->origin = "the option";
		ret = take(s, config, option, token_file);
	} else if (ret == 0 && variable && *variable) {
		s->origin = "REMOTE_GPU_ADDRESS";
		ret = take(s, config, variable, token_file);
	} else if (ret == 0 && config->chosen[0]) {
		s->origin = "the configuration";
		ret = take(s, config, config->chosen, token_file);
	}
	free(config);
	return ret;
}

int ckx_server_find(const char *option, struct ckx_server *s)
{
	const char *variable = getenv("CRICKET_TOKEN");
	char file[CKX_TEXT];
	int ret = ckx_server_name(option, s, file);

	if (ret < 0)
		return ret;
	if (variable && *variable) {
		if (strlen(variable) >= sizeof(s->token)) {
			ckx_error("CRICKET_TOKEN is too long");
			return -EINVAL;
		}
		strcpy(s->token, variable);
		return 0;
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
