/*
 * command/servers.c - `cricket servers`: the servers of the configuration files.
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/command.h"
#include "command/config.h"
#include "command/server.h"
#include "command/token.h"

static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};

static bool has_token(const struct ckx_entry *e)
{
	char token[CKX_TOKEN];
	bool kept = e->token_file[0] || (ckx_token_find(e->address, token) == 0 && token[0]);

	memset(token, 0, sizeof(token));
	return kept;
}

static void print_json(const struct ckx_config *config, const char *used)
{
	json_t *list = json_array();

	for (size_t i = 0; i < config->count; i++) {
		const struct ckx_entry *e = &config->servers[i];

		json_array_append_new(list, json_pack("{s:s, s:s, s:s*, s:b, s:b, s:s}", "name",
						      e->name, "address", e->address, "devices",
						      e->devices[0] ? e->devices : NULL, "token",
						      has_token(e), "used",
						      strcmp(e->name, used) == 0, "file", e->file));
	}
	json_dumpf(list, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(list);
}

static void print_table(const struct ckx_config *config, const struct ckx_server *used)
{
	char text[2 * CKX_TEXT + 8];

	if (config->count > 0)
		printf("  %-16s %-32s %-8s %-6s %s\n", "NAME", "ADDRESS", "DEVICES", "TOKEN",
		       "FILE");
	for (size_t i = 0; i < config->count; i++) {
		const struct ckx_entry *e = &config->servers[i];

		printf("%c %-16s %-32s %-8s %-6s %s\n", strcmp(e->name, used->name) ? ' ' : '*',
		       e->name, e->address, e->devices[0] ? e->devices : "all",
		       has_token(e) ? "yes" : "no", e->file);
	}
	printf("%sin use: %s (%s)\n", config->count > 0 ? "\n" : "", ckx_server_text(used, text),
	       used->origin);
}

int ckx_servers(const struct ckx_command *self, int argc, char **argv)
{
	struct ckx_config *config;
	struct ckx_server used;
	char token_file[CKX_TEXT];
	int option = getopt_long(argc, argv, "j", options, NULL), status = CKX_FAILED;

	if (option == '?' || optind < argc)
		return ckx_usage(self);
	config = malloc(sizeof(*config));
	if (config && ckx_config_read(config) == 0 &&
	    ckx_server_name(NULL, &used, token_file) == 0) {
		if (option == 'j')
			print_json(config, used.name);
		else
			print_table(config, &used);
		status = fflush(stdout) == 0 ? CKX_OK : CKX_FAILED;
	}
	free(config);
	return status;
}
