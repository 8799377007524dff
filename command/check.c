/*
 * command/check.c - `cricket check`: each step to a working program, and what to do where it fails.
 */
#include <getopt.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <string.h>

#include "command/command.h"
#include "command/place.h"
#include "command/probe.h"
#include "command/reach.h"
#include "cuda/mps.h"
#include "cuda/types.h"
#include "util/servers.h"

static const struct option options[] = {{"json", no_argument, NULL, 'j'},
					{"server", required_argument, NULL, 's'},
					{NULL, 0, NULL, 0}};

/* What to do about a CUresult of the first calls. */
static const char *advice_for(json_int_t error)
{
	switch (error) {
	case CUDA_ERROR_NOT_PERMITTED:
		return "give this server's token: cricket login SERVER, or CRICKET_TOKEN";
	case CUDA_ERROR_DEVICE_UNAVAILABLE:
		return "wait until another program ends, or use another server";
	case CUDA_ERROR_NO_DEVICE:
		return "run nvidia-smi on the server: its driver finds no GPU";
	case CUDA_ERROR_OUT_OF_MEMORY:
		return "the GPU is full: wait, or choose another one with --devices";
	default:
		return "look at the server's log";
	}
}

/* Add a step; with @advice, one that failed. */
static void step(json_t *report, const char *name, const char *text, const char *advice)
{
	json_array_append_new(json_object_get(report, "steps"),
			      json_pack("{s:s, s:b, s:s, s:s*}", "name", name, "ok", !advice,
					"text", text, "advice", advice));
	if (advice)
		json_object_set_new(report, "ok", json_false());
}

/* What the client is, and what runs it here. */
static void check_client(json_t *report)
{
	char folder[CKX_PATH], text[CKX_PATH + 64];

	if (ckx_place_library(folder) < 0) {
		step(report, "client", "there is no cricket-client.so", "install the client");
		return;
	}
	snprintf(text, sizeof(text), "%s/cricket-client.so, glibc %s", folder,
		 gnu_get_libc_version());
	step(report, "client", text, NULL);
}

/* True: it answers. */
static bool check_reach(json_t *report, const struct ckx_server *server)
{
	struct ckx_reach reach;
	char text[1024];

	ckx_reach(server, &reach);
	if (!reach.connected) {
		snprintf(text, sizeof(text), "%s: %s", reach.at, reach.why);
		step(report, "connection", text,
		     "check the name, that the server runs, its --listen, and firewalls");
		return false;
	}
	snprintf(text, sizeof(text), "%s in %.2f ms", reach.at, reach.connect_ms);
	step(report, "connection", text, NULL);
	step(report, "route", reach.route, NULL);
	if (!reach.trusted) {
		step(report, "tls", reach.why,
		     "see TLS in docs/security.md; CRICKET_TLS=off goes without");
		return false;
	}
	step(report, "tls",
	     reach.secure ? reach.tls
	     : strncmp(reach.at, "unix:", 5) == 0 || strncmp(reach.at, "shm:", 4) == 0
		     ? "not needed: a socket of this host"
		     : "none: everyone who can read the network can read all data",
	     NULL);
	if (!reach.speaks) {
		step(report, "protocol", reach.why, "check host and port");
		return false;
	}
	json_object_set_new(report, "round_trip_us", json_real(reach.trip_us));
	snprintf(text, sizeof(text), "round trip %.3f ms", reach.trip_us / 1e3);
	step(report, "protocol", text, NULL);
	if (reach.near)
		step(report, "mps",
		     ck_cuda_mps_runs()
			     ? "NVIDIA MPS runs here: a fault of one session may end the others"
			     : "NVIDIA MPS does not run here",
		     NULL);
	return true;
}

/* A list of servers: each by itself. */
static bool check_list(json_t *report, const struct ckx_server *server)
{
	static struct ck_server_list list;
	struct ckx_server one = *server;
	const char *why;
	bool all = true;

	if (ck_servers_parse(server->address, &list, &why) < 0) {
		step(report, "list", why, "see docs/pool.md");
		return false;
	}
	for (unsigned int i = 0; i < list.count; i++) {
		snprintf(one.address, sizeof(one.address), "%s", list.entries[i].address);
		all = check_reach(report, &one) && all;
	}
	return all;
}

static void check_devices(json_t *report, const json_t *found)
{
	json_t *devices = json_object_get(found, "devices");
	const json_t *d;
	char text[400];
	size_t i;

	json_object_set(report, "devices", devices);
	json_array_foreach(devices, i, d)
	{
		snprintf(text, sizeof(text), "%s, %lld of %lld MiB free",
			 json_string_value(json_object_get(d, "name")),
			 (long long)json_integer_value(json_object_get(d, "free")) >> 20,
			 (long long)json_integer_value(json_object_get(d, "memory")) >> 20);
		step(report, "gpu", text, NULL);
	}
	if (json_array_size(devices) == 0)
		step(report, "gpu", "the server has none", advice_for(CUDA_ERROR_NO_DEVICE));
}

/* A session, through the client library. */
static void check_session(json_t *report, const struct ckx_server *server)
{
	json_t *found = ckx_probe(server);
	json_int_t error = json_integer_value(json_object_get(found, "error"));
	const char *said = json_string_value(json_object_get(found, "said"));
	double up = json_real_value(json_object_get(found, "up"));
	double down = json_real_value(json_object_get(found, "down"));
	char text[1200];
	int version = (int)json_integer_value(json_object_get(found, "driver"));

	if (!found || error) {
		snprintf(text, sizeof(text), "error %lld: %s", (long long)error,
			 said && *said ? said : "the client library failed");
		step(report, "session", text,
		     found ? advice_for(error) : "check that the client is installed");
	} else {
		snprintf(text, sizeof(text), "the client works; the driver is that of CUDA %d.%d",
			 version / 1000, version % 1000 / 10);
		step(report, "session", text, NULL);
		check_devices(report, found);
	}
	if (up > 0) {
		snprintf(text, sizeof(text), "%.0f MB/s to the GPU, %.0f MB/s back", up / 1e6,
			 down / 1e6);
		step(report, "copies", text, NULL);
		json_object_set_new(report, "up_mb_s", json_real(up / 1e6));
		json_object_set_new(report, "down_mb_s", json_real(down / 1e6));
	}
	json_decref(found);
}

static void print(const json_t *report)
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
}

int ckx_check(const struct ckx_command *self, int argc, char **argv)
{
	struct ckx_server server;
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
	report = json_pack("{s:s, s:s, s:b, s:[]}", "server",
			   server.name[0] ? server.name : server.address, "release", CK_RELEASE,
			   "ok", 1, "steps");
	check_client(report);
	if (ck_servers_is_list(server.address) ? check_list(report, &server)
					       : check_reach(report, &server))
		check_session(report, &server);
	if (json) {
		json_dumpf(report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
		putchar('\n');
	} else {
		print(report);
	}
	ok = json_is_true(json_object_get(report, "ok"));
	json_decref(report);
	return ok && fflush(stdout) == 0 ? CKX_OK : CKX_FAILED;
}
