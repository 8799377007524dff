/*
 * command/servers/servers.c - `cricket servers`: the servers of the configuration files, or of a
 * list, and the resources that they offer; or those of the local network.
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/config/command.h"
#include "command/config/config.h"
#include "command/config/server.h"
#include "command/config/token_store.h"
#include "command/servers/fleet.h"
#include "command/servers/lan.h"

static const struct option options[] = {{"json", no_argument, NULL, 'j'},
					{"state", no_argument, NULL, 't'},
					{"server", required_argument, NULL, 's'},
					{"lan", no_argument, NULL, 'l'},
					{NULL, 0, NULL, 0}};

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

static int list_configured(bool json)
{
	struct ckx_config *config = malloc(sizeof(*config));
	char token_file[CKX_TEXT];
	struct ckx_server used;
	int ret = config ? ckx_config_read(config) : -ENOMEM;

	if (ret == 0)
		ret = ckx_server_name(NULL, &used, token_file);
	if (ret == 0 && json)
		print_json(config, used.name);
	else if (ret == 0)
		print_table(config, &used);
	free(config);
	return ret;
}

/* Those of the configuration files, or the one that is used if they have none. */
static int find_configured(struct ckx_fleet *fleet)
{
	struct ckx_config *config = malloc(sizeof(*config));
	int ret = config ? ckx_config_read(config) : -ENOMEM;
	struct ckx_server server;

	for (size_t i = 0; ret == 0 && i < config->count; i++) {
		ret = ckx_server_find(config->servers[i].name, &server);
		if (ret == 0 && ckx_fleet_is(server.address))
			ret = ckx_fleet_find(&server, fleet);
		else if (ret == 0)
			ret = ckx_fleet_add(fleet, &server);
	}
	if (ret == 0 && config->count == 0) {
		ret = ckx_server_find(NULL, &server);
		if (ret == 0)
			ret = ckx_fleet_add(fleet, &server);
	}
	free(config);
	return ret;
}

/* An empty name is the server of this host, also if variables or files name another: for
 * programs. */
static int find_named(const char *named, struct ckx_server *server)
{
	const char *variable;

	if (*named)
		return ckx_server_find(named, server);
	*server = (struct ckx_server){.origin = "the option", .option = "-s "};
	return ck_token_find(server->token, &variable);
}

/* Ask the servers of @named, or all that are configured, for their state. */
static int list_states(const char *named, bool json)
{
	struct ckx_fleet *fleet = calloc(1, sizeof(*fleet));
	struct ckx_server server;
	int ret = fleet ? 0 : -ENOMEM;

	if (ret == 0 && named)
		ret = find_named(named, &server);
	if (ret == 0 && named)
		ret = ckx_server_check(&server, true);
	if (ret == 0 && named && server.address[0])
		ret = ckx_fleet_find(&server, fleet);
	else if (ret == 0 && named)
		ret = ckx_fleet_add(fleet, &server);
	else if (ret == 0)
		ret = find_configured(fleet);
	if (ret == 0) {
		ckx_fleet_ask(fleet);
		if (json)
			ckx_fleet_print_json(fleet);
		else
			ckx_fleet_print(fleet);
	}
	if (fleet)
		ckx_fleet_free(fleet);
	free(fleet);
	return ret;
}

static int list_lan(bool json)
{
	static struct ckx_lan lan;
	int ret = ckx_lan_find(&lan);

	if (ret == 0 && json)
		ckx_lan_print_json(&lan);
	else if (ret == 0)
		ckx_lan_print(&lan);
	return ret;
}

int ckx_servers(const struct ckx_command *self, int argc, char **argv)
{
	bool json = false, state = false, lan = false;
	const char *named = NULL;
	int option, ret;

	while ((option = getopt_long(argc, argv, "jts:", options, NULL)) != -1) {
		if (option == '?')
			return ckx_usage(self);
		json |= option == 'j';
		state |= option == 't';
		lan |= option == 'l';
		named = option == 's' ? optarg : named;
	}
	if (argc - optind > (named ? 0 : 1))
		return ckx_usage(self);
	named = named ? named : argv[optind];
	if (lan && (named || state))
		return ckx_usage(self);
	ret = lan	       ? list_lan(json)
	      : named || state ? list_states(named, json)
			       : list_configured(json);
	return ret == 0 ? CKX_OK : CKX_FAILED;
}
