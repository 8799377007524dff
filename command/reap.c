/*
 * command/reap.c - `cricket reap`, and the process that does it after `cricket run`; see reap.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/command.h"
#include "command/fleet.h"
#include "command/reach.h"
#include "command/reap.h"
#include "cricket.h"
#include "rpc/chan.h"
#include "rpc/record.h"
#include "util/machine.h"
#include "util/util.h"

#define SILENCE_MS 10000
#define XID 1
#define TRIES 7 /* after 1, 2, 4 ... s: two minutes, longer than sessions are kept by default */

static const struct option options[] = {{"server", required_argument, NULL, 's'},
					{NULL, 0, NULL, 0}};

struct exchange {
	ck_ended_args args;
	ck_ended_res res; /* freed by the caller */
};

static int send_report(struct ck_chan *chan, const struct exchange *x)
{
	char out[CKX_TOKEN + 1024];
	long size = ck_call_encode(out, sizeof(out), XID, CK_ENDED, (xdrproc_t)xdr_ck_ended_args,
				   &x->args, 0);
	struct iovec iov = {out, (size_t)size};
	int ret = size < 0 ? (int)size : ck_chan_writev(chan, &iov, 1);

	explicit_bzero(out, sizeof(out));
	return ret;
}

static int decode(const struct ck_record *record, ck_ended_res *res)
{
	uint32_t xid, low, high;
	size_t results;
	XDR xdrs;
	int ret = ck_reply_decode(record->body, record->body_size, &xid, &results, &low, &high);

	if (ret < 0 || xid != XID)
		return ret < 0 ? ret : -EPROTO;
	xdrmem_create(&xdrs, (char *)(uintptr_t)record->body + results,
		      (u_int)(record->body_size - results), XDR_DECODE);
	return xdr_ck_ended_res(&xdrs, res) ? 0 : -EPROTO;
}

static int hear(struct ck_chan *chan, ck_ended_res *res)
{
	struct ck_reader *reader;
	struct ck_record record;
	int ret = ck_reader_create(chan, &reader);

	if (ret < 0)
		return ret;
	ret = ck_reader_next(reader, &record);
	if (ret == 0)
		ret = decode(&record, res);
	ck_reader_destroy(reader);
	return ret;
}

static int exchange(const struct ckx_server *server, struct exchange *x, char why[CK_TLS_WHY])
{
	struct ckx_reach reach;
	struct ck_chan *chan;
	int ret = ckx_reach_dial(server, &reach, &chan);

	if (ret < 0) {
		snprintf(why, CK_TLS_WHY, "%s", reach.why);
		return ret;
	}
	ck_chan_timeout(chan, SILENCE_MS);
	ret = send_report(chan, x);
	if (ret == 0)
		ret = hear(chan, &x->res);
	ck_chan_close(chan);
	if (ret == 0 && x->res.status != 0)
		ret = -EACCES;
	if (ret == -EOPNOTSUPP)
		snprintf(why, CK_TLS_WHY, "its release is too old for reports");
	else if (ret == -EACCES)
		snprintf(why, CK_TLS_WHY, "it does not admit this client");
	else if (ret < 0)
		snprintf(why, CK_TLS_WHY, "it does not answer: %s", strerror(-ret));
	return ret;
}

int ckx_reap_server(const struct ckx_server *server, unsigned int *ended, char why[CK_TLS_WHY])
{
	u_int pids[CK_ENDED_MAX];
	struct exchange x = {
		.args = {.token = {(u_int)strlen(server->token), (char *)(uintptr_t)server->token},
			 .release = (char *)(uintptr_t)CK_RELEASE,
			 .ended.ended_val = pids},
	};
	int ret;

	*ended = 0;
	ck_machine_id((unsigned char *)x.args.machine);
	ret = exchange(server, &x, why);
	for (u_int i = 0; ret == 0 && i < x.res.pids.pids_len; i++) {
		if (ck_machine_ended((pid_t)x.res.pids.pids_val[i]))
			pids[x.args.ended.ended_len++] = x.res.pids.pids_val[i];
	}
	xdr_free((xdrproc_t)xdr_ck_ended_res, &x.res);
	memset(&x.res, 0, sizeof(x.res));
	if (ret < 0 || x.args.ended.ended_len == 0)
		return ret;
	*ended = x.args.ended.ended_len;
	ret = exchange(server, &x, why);
	xdr_free((xdrproc_t)xdr_ck_ended_res, &x.res);
	return ret;
}

/* --- after a program */

static void wait_for(int program)
{
	struct pollfd p = {.fd = program, .events = POLLIN};

	while (poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}

/* A server that is out of reach may be there again later. */
static void reap_fleet(const struct ckx_fleet *fleet)
{
	unsigned int ended, pause = 1;
	char why[CK_TLS_WHY];

	for (size_t i = 0; i < fleet->count; i++) {
		int ret = ckx_reap_server(&fleet->list[i]->server, &ended, why);

		for (int tries = 1;
		     ret < 0 && ret != -EOPNOTSUPP && ret != -EACCES && tries < TRIES;
		     tries++, pause *= 2) {
			sleep(pause);
			ret = ckx_reap_server(&fleet->list[i]->server, &ended, why);
		}
	}
}

/* No process waits for this one, and no pipe stays open because of it. */
static void leave_all(int program)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	prctl(PR_SET_NAME, "cricket-reap");
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	for (int fd = 3; fd < 1024; fd++) {
		if (fd != program)
			close(fd);
	}
	if (chdir("/") < 0)
		return; /* it keeps a file system in use */
}

static bool is_far(const struct ckx_fleet *fleet)
{
	for (size_t i = 0; i < fleet->count; i++) {
		const char *address = fleet->list[i]->server.address;

		if (*address && strncmp(address, "unix:", 5) != 0 &&
		    strncmp(address, "shm:", 4) != 0 && strcmp(address, "local") != 0)
			return true;
	}
	return false;
}

void ckx_reap_later(const struct ckx_server *server)
{
	static struct ckx_fleet fleet;
	int program = ck_machine_watch(getpid());
	pid_t child;

	if (program < 0)
		return; /* an old kernel */
	if (!server->address[0] || ckx_fleet_find(server, &fleet) < 0 || !is_far(&fleet)) {
		ckx_fleet_free(&fleet);
		close(program);
		return;
	}
	child = fork();
	if (child == 0) {
		if (fork() != 0)
			_exit(0);
		leave_all(program);
		wait_for(program);
		reap_fleet(&fleet);
		_exit(0);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
	close(program);
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
		if (ckx_reap_server(server, &ended, why) < 0)
			status = ckx_error("%s: %s", text, why);
		else if (ended > 0)
			printf("%s: %u program%s ended\n", text, ended,
			       ended == 1 ? " has" : "s have");
	}
	return fflush(stdout) == 0 ? status : CKX_FAILED;
}

int ckx_reap(const struct ckx_command *self, int argc, char **argv)
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
		ret = server.address[0] ? ckx_fleet_find(&server, &fleet)
					: ckx_fleet_add(&fleet, &server);
	explicit_bzero(server.token, sizeof(server.token));
	ret = ret < 0 ? CKX_FAILED : reap_all(&fleet);
	ckx_fleet_free(&fleet);
	return ret;
}
