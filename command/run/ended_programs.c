/*
 * command/run/ended_programs.c - `cricket reap`, and the process that does it after `cricket run`;
 * see run.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/run/run.h"
#include "command/run/side_process.h"
#include "command/servers/exchange.h"
#include "command/servers/fleet.h"
#include "cricket.h"
#include "util/process/machine.h"

#define TRIES 7 /* after 1, 2, 4 ... s: two minutes, longer than sessions are kept by default */

static const struct option options[] = {{"server", required_argument, NULL, 's'},
					{NULL, 0, NULL, 0}};

/* Report @args, and get in @res the rest of them; freed by the caller. */
static int report(const struct ckx_server *server, ck_ended_args *args, ck_ended_res *res,
		  char why[CK_TLS_WHY])
{
	const struct ckx_exchange exchange = {
		.proc = CK_ENDED,
		.purpose = "for reports",
		.code_args = (xdrproc_t)xdr_ck_ended_args,
		.code_res = (xdrproc_t)xdr_ck_ended_res,
		.args = args,
		.res = res,
	};
	struct ckx_connection reach;
	int ret = ckx_exchange(server, &exchange, &reach);
	bool denied = ret == 0 && res->status != 0;

	snprintf(why, CK_TLS_WHY, "%s", denied ? "it does not admit this client" : reach.why);
	return denied ? -EACCES : ret;
}

/* Ask @server for the sessions of this machine and identity, and report those whose programs have
 * ended: *@ended is their number. -errno; @why says why. -EOPNOTSUPP: its release is too old to
 * keep them. */
static int report_ended(const struct ckx_server *server, unsigned int *ended, char why[CK_TLS_WHY])
{
	u_int pids[CK_ENDED_MAX];
	ck_ended_args args = {
		.token = {(u_int)strlen(server->token), (char *)(uintptr_t)server->token},
		.release = (char *)(uintptr_t)CK_RELEASE,
		.ended.ended_val = pids,
	};
	ck_ended_res res = {0};
	int ret;

	*ended = 0;
	ck_machine_id((unsigned char *)args.machine);
	ret = report(server, &args, &res, why);
	for (u_int i = 0; ret == 0 && i < res.pids.pids_len; i++) {
		if (ck_machine_ended((pid_t)res.pids.pids_val[i]))
			pids[args.ended.ended_len++] = res.pids.pids_val[i];
	}
	xdr_free((xdrproc_t)xdr_ck_ended_res, &res);
	memset(&res, 0, sizeof(res));
	if (ret < 0 || args.ended.ended_len == 0)
		return ret;
	*ended = args.ended.ended_len;
	ret = report(server, &args, &res, why);
	xdr_free((xdrproc_t)xdr_ck_ended_res, &res);
	return ret;
}

/* --- after a program */

/* A server that is out of reach may be there again later. */
static void reap_fleet(const struct ckx_fleet *fleet)
{
	unsigned int ended, pause = 1;
	char why[CK_TLS_WHY];

	for (size_t i = 0; i < fleet->count; i++) {
		int ret = report_ended(&fleet->list[i]->server, &ended, why);

		for (int tries = 1;
		     ret < 0 && ret != -EOPNOTSUPP && ret != -EACCES && tries < TRIES;
		     tries++, pause *= 2) {
			sleep(pause);
			ret = report_ended(&fleet->list[i]->server, &ended, why);
		}
	}
}

static bool is_far(const struct ckx_fleet *fleet)
{
	for (size_t i = 0; i < fleet->count; i++) {
		if (!ck_address_has(fleet->list[i]->server.address, CK_ADDRESS_HERE))
			return true;
	}
	return false;
}

static void reap_after(const struct ckx_side_process *aside, void *argument)
{
	ckx_side_process_wait(aside);
	reap_fleet(argument);
}

void ckx_ended_programs_later(const struct ckx_server *server)
{
	static struct ckx_fleet fleet;
	struct ckx_side_process aside = {.name = "cricket-reap", .pipe = -1, .work = reap_after};
	struct ckx_server next = *server;
	int ret;

	do
		ret = next.address[0] ? ckx_fleet_find(&next, &fleet) : 0;
	while (ret == 0 && ckx_server_next(&next));
	explicit_bzero(next.token, sizeof(next.token));
	if (ret == 0 && is_far(&fleet))
		/* without it, the server waits for the program */
		ckx_side_process_start(&aside, &fleet);
	ckx_fleet_free(&fleet);
}

/* --- the command */

static int reap_all(const struct ckx_fleet *fleet)
{
	int status = CKX_OK;

	for (size_t i = 0; i < fleet->count; i++) {
		const struct ckx_server *server = &fleet->list[i]->server;
		char why[CK_TLS_WHY], text[2 * CKX_TEXT + 8];
		unsigned int ended;

		ckx_server_text(server, text);
		if (report_ended(server, &ended, why) < 0)
			status = ckx_error("%s: %s", text, why);
		else if (ended > 0)
			printf("%s: %u program%s ended\n", text, ended,
			       ended == 1 ? " has" : "s have");
	}
	return status;
}

int ckx_ended_programs(const struct ckx_command *self, int argc, char **argv)
{
	static struct ckx_fleet fleet;
	struct ckx_server server;
	const char *named = NULL;
	int option, ret;

	while ((option = getopt_long(argc, argv, "s:", options, NULL)) != -1) {
		if (option == '?')
			return ckx_usage(self);
		named = optarg;
	}
	if (argc > optind)
		return ckx_usage(self);
	ret = ckx_server_find(named, &server);
	if (ret == 0)
		ret = ckx_server_check(&server, true);
	if (ret == 0)
		ret = server.address[0] ? ckx_fleet_find(&server, &fleet)
					: ckx_fleet_add(&fleet, &server);
	explicit_bzero(server.token, sizeof(server.token));
	ret = ret < 0 ? CKX_FAILED : reap_all(&fleet);
	ckx_fleet_free(&fleet);
	return ret;
}
