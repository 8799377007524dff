/*
 * command/check/check.c - `cricket check`: each step to a working program, and what to do where it
 * fails.
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/check/check.h"
#include "command/config/command.h"
#include "command/config/install_paths.h"
#include "command/servers/connection.h"
#include "cuda/mps.h"
#include "util/address/address.h"
#include "util/address/servers.h"

static const struct option options[] = {{"json", no_argument, NULL, 'j'},
					{"server", required_argument, NULL, 's'},
					{NULL, 0, NULL, 0}};

/* One run of the command. */
struct check {
	json_t *report;
	const struct ckx_server *server;
	const char *name;      /* the user's name of the server; empty: this host's */
	char at[CKX_TEXT + 8]; /* the address that was tried last */
};

/* Add a step that is done. */
static void add_passed_step(struct check *c, const char *name, const char *text)
{
	json_array_append_new(json_object_get(c->report, "steps"),
			      json_pack("{s:s, s:b, s:s}", "name", name, "ok", 1, "text", text));
}

/* The host of the address that was tried. */
static void find_host(const char *at, char out[CKX_TEXT + 8])
{
	char why[CK_ADDRESS_WHY];
	struct ck_address a;

	snprintf(out, CKX_TEXT + 8, "%s", at);
	if (ck_address_parse(at, &a, why) == 0 && a.host[0])
		snprintf(out, CKX_TEXT + 8, "%s", a.host);
}

/* The pin that the server shows, if it is advised to store one. */
static void find_pin(const struct check *c, const struct ckx_advice *row, char pin[CK_TLS_PIN])
{
	struct ckx_connection reach;

	pin[0] = '\0';
	if (strstr(row->advice, "PIN") && ckx_connection_pin(c->server, &reach, pin) < 0)
		pin[0] = '\0';
}

/* Add a step that has failed, with advice; the first one decides what to do next. @error: a
 * CUresult, or 0. */
static void add_failed_step(struct check *c, const char *name, int error, const char *text)
{
	const struct ckx_advice *row = ckx_advice_find(name, error, text);
	char host[CKX_TEXT + 8], pin[CK_TLS_PIN], advice[600], next[600];
	const char *server = c->name[0] ? c->name : c->at[0] ? c->at : "SERVER";
	const struct ckx_advice_words words = {server, host, pin};

	find_host(c->at, host);
	find_pin(c, row, pin);
	ckx_advice_expand(row->advice, &words, advice, sizeof(advice));
	ckx_advice_expand(row->next, &words, next, sizeof(next));
	json_array_append_new(json_object_get(c->report, "steps"),
			      json_pack("{s:s, s:b, s:s, s:s}", "name", name, "ok", 0, "text", text,
					"advice", advice));
	if (json_is_true(json_object_get(c->report, "ok"))) {
		json_object_set_new(c->report, "next", json_string(next));
		json_object_set_new(c->report, "next_on_server", json_boolean(row->there));
	}
	json_object_set_new(c->report, "ok", json_false());
}

/* The client, and the program that runs it here. */
static void check_client(struct check *c)
{
	char folder[CKX_PATH], text[CKX_PATH + sizeof(CKX_NOT_LOADED) + 16];

	if (ckx_install_path_library(folder) < 0) {
		add_failed_step(c, "client", 0, "there is no cricket-client.so");
		return;
	}
	if (!ckx_install_path_loads(folder)) {
		snprintf(text, sizeof(text), "%s: " CKX_NOT_LOADED, folder);
		add_failed_step(c, "client", 0, text);
		return;
	}
	snprintf(text, sizeof(text), "%s/cricket-client.so, glibc %s", folder,
		 gnu_get_libc_version());
	add_passed_step(c, "client", text);
}

static const char *describe_tls(const struct ckx_connection *reach)
{
	if (reach->secure)
		return reach->tls;
	return ck_address_has(reach->at, CK_ADDRESS_HERE)
		       ? "not needed: a socket of this host"
		       : "none: everyone who can read the network can read all data";
}

/* True: it answers. */
static bool check_reach(struct check *c)
{
	struct ckx_connection reach;
	char text[1024];

	ckx_connection(c->server, &reach);
	snprintf(c->at, sizeof(c->at), "%s", reach.at);
	if (!reach.connected) {
		snprintf(text, sizeof(text), "%s: %s", reach.at, reach.why);
		return add_failed_step(c, reach.error == -EINVAL ? "address" : "connection", 0,
				       text),
		       false;
	}
	snprintf(text, sizeof(text), "%s in %.2f ms", reach.at, reach.connect_ms);
	add_passed_step(c, "connection", text);
	add_passed_step(c, "route", reach.route);
	if (!reach.trusted)
		return add_failed_step(c, "tls", 0, reach.why), false;
	add_passed_step(c, "tls", describe_tls(&reach));
	if (!reach.speaks)
		return add_failed_step(c, "protocol", 0, reach.why), false;
	json_object_set_new(c->report, "round_trip_us", json_real(reach.trip_us));
	snprintf(text, sizeof(text), "round trip %.3f ms", reach.trip_us / 1e3);
	add_passed_step(c, "protocol", text);
	if (reach.near)
		add_passed_step(c, "mps",
				ck_cuda_mps_runs()
					? "NVIDIA MPS runs: a fault of one session may end others"
					: "NVIDIA MPS does not run here");
	return true;
}

/* A list of servers: each by itself. */
static bool check_list(struct check *c)
{
	static struct ck_server_list list;
	struct check each = *c; /* which reports to the same */
	struct ckx_server one = *c->server;
	char why[CK_ADDRESS_WHY];
	bool all = true;

	if (ck_servers_parse(one.address, &list, why) < 0)
		return add_failed_step(c, "list", 0, why), false;
	each.server = &one;
	each.name = one.address;
	for (unsigned int i = 0; i < list.count; i++) {
		snprintf(one.address, sizeof(one.address), "%s", list.entries[i].address);
		all = check_reach(&each) && all;
	}
	return all;
}

/* A program gets the devices of the server's section. UUIDs are for the server to judge. */
static void check_numbers(struct check *c, size_t count)
{
	char text[CKX_TEXT + 100];

	for (const char *at = c->server->devices; *at;
	     at += strcspn(at, ",") + (at[strcspn(at, ",")] != '\0')) {
		at += strspn(at, " ");
		if (!isdigit((unsigned char)*at) || strtoul(at, NULL, 10) < count)
			continue;
		snprintf(text, sizeof(text), "devices = %s: the server has %zu, numbered from 0",
			 c->server->devices, count);
		add_failed_step(c, "gpu", 0, text);
		return;
	}
}

static void check_devices(struct check *c, const json_t *found)
{
	json_t *devices = json_object_get(found, "devices");
	const json_t *d;
	char text[400];
	size_t i;

	json_object_set(c->report, "devices", devices);
	json_array_foreach(devices, i, d)
	{
		snprintf(text, sizeof(text), "%s, %lld of %lld MiB free",
			 json_string_value(json_object_get(d, "name")),
			 (long long)json_integer_value(json_object_get(d, "free")) >> 20,
			 (long long)json_integer_value(json_object_get(d, "memory")) >> 20);
		add_passed_step(c, "gpu", text);
	}
	if (json_array_size(devices) == 0)
		add_failed_step(c, "gpu", 0, "the server has none");
	else
		check_numbers(c, json_array_size(devices));
}

static void add_rates(struct check *c, double up, double down)
{
	char text[128];

	snprintf(text, sizeof(text), "%.0f MB/s to the GPU, %.0f MB/s back", up / 1e6, down / 1e6);
	add_passed_step(c, "copies", text);
	json_object_set_new(c->report, "up_mb_s", json_real(up / 1e6));
	json_object_set_new(c->report, "down_mb_s", json_real(down / 1e6));
}

/* A server of an earlier release says of a wrong token only that it wants its own. */
static const char *reword_message(const char *said, const struct ckx_server *server)
{
	if (server->token[0] && strstr(said, "only clients with its token"))
		return "the token is not one of the server's tokens";
	return said && *said ? said : "the client library failed";
}

/* A session, through the client library. */
static void check_session(struct check *c)
{
	json_t *found = ckx_probe(c->server);
	json_int_t error = json_integer_value(json_object_get(found, "error"));
	const char *said = json_string_value(json_object_get(found, "said"));
	double up = json_real_value(json_object_get(found, "up"));
	int version = (int)json_integer_value(json_object_get(found, "driver"));
	char text[1200];

	if (!found || error) {
		snprintf(text, sizeof(text), "error %lld: %s", (long long)error,
			 reword_message(said ? said : "", c->server));
		add_failed_step(c, found ? "session" : "client", (int)error, text);
	} else {
		snprintf(text, sizeof(text), "the client works; the driver is that of CUDA %d.%d",
			 version / 1000, version % 1000 / 10);
		add_passed_step(c, "session", text);
		check_devices(c, found);
	}
	if (up > 0)
		add_rates(c, up, json_real_value(json_object_get(found, "down")));
	json_decref(found);
}

static void print_report(const json_t *report)
{
	bool colours = ckx_colours(1);
	const json_t *s;
	size_t i;

	json_array_foreach(json_object_get(report, "steps"), i, s)
	{
		const char *advice = json_string_value(json_object_get(s, "advice"));

		printf("%s%-6s%s %-11s %s\n",
		       !colours ? ""
		       : advice ? "\033[31m"
				: "\033[32m",
		       advice ? "FAILED" : "ok", colours ? "\033[0m" : "",
		       json_string_value(json_object_get(s, "name")),
		       json_string_value(json_object_get(s, "text")));
		if (advice)
			printf("%18s -> %s\n", "", advice);
	}
	printf("\nnext%s: %s\n",
	       json_is_true(json_object_get(report, "next_on_server")) ? ", on the server's host"
								       : "",
	       json_string_value(json_object_get(report, "next")));
}

/* All is well: run a program. */
static void advise_run(struct check *c)
{
	const struct ckx_advice_words words = {c->name, "", ""};
	char next[600];

	ckx_advice_expand(c->name[0] ? "cricket run -s SERVER -- PROGRAM"
				     : "cricket run -- PROGRAM",
			  &words, next, sizeof(next));
	json_object_set_new(c->report, "next", json_string(next));
}

int ckx_check(const struct ckx_command *self, int argc, char **argv)
{
	struct ckx_server server;
	struct check c = {.server = &server};
	const char *named = NULL;
	bool json = false, ok;
	json_t *report;
	int option;

	while ((option = getopt_long(argc, argv, "js:", options, NULL)) != -1) {
		if (option == '?')
			return ckx_usage(self);
		json |= option == 'j';
		named = option == 's' ? optarg : named;
	}
	if (argc - optind > (named ? 0 : 1))
		return ckx_usage(self);
	if (ckx_server_find(named ? named : argv[optind], &server) < 0)
		return CKX_FAILED;
	c.name = server.name[0] ? server.name : server.address;
	report = json_pack("{s:s, s:s, s:b, s:[]}", "server", c.name, "release", CK_RELEASE, "ok",
			   1, "steps");
	c.report = report;
	check_client(&c);
	if (ck_servers_is_list(server.address) ? check_list(&c) : check_reach(&c))
		check_session(&c);
	if (json_is_true(json_object_get(report, "ok")))
		advise_run(&c);
	if (json) {
		json_dumpf(report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
		putchar('\n');
	} else {
		print_report(report);
	}
	ok = json_is_true(json_object_get(report, "ok"));
	json_decref(report);
	return ok ? CKX_OK : CKX_FAILED;
}
