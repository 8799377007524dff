/*
 * server/door/downloads.c - see downloads.h.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "server/children/workers.h"
#include "server/door/answer.h"
#include "server/door/downloads.h"
#include "server/door/request.h"
#include "server/helpers/client_files.h"
#include "server/options/options.h"
#include "server/processes/child.h"
#include "server/session/identity.h"
#include "server/session/version.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

static void send_reply(int fd, const struct cks_peeked *call, ck_files_status status,
		       const char *why)
{
	ck_files_res res = {
		.status = status,
		.message = (char *)(uintptr_t)why,
		.release = (char *)(uintptr_t)CK_RELEASE,
	};

	cks_answer(fd, call, (xdrproc_t)xdr_ck_files_res, &res);
}

static int start_download(const char *folder, int fd, pid_t *pid)
{
	char *arguments[] = {(char *)"cricket-rpc-server", (char *)CK_CLIENT_FILES_ARGUMENT,
			     (char *)(uintptr_t)folder, NULL};

	*pid = fork();
	if (*pid == 0)
		cks_child_execute(arguments, fd, -1);
	if (*pid > 0)
		return 0;
	*pid = 0;
	return -errno;
}

/* The number of downloads of @peer. *@place is a free one; CK_DOWNLOADS: none is. */
static size_t find_place(const struct cks_downloads *d, const struct cks_peer *peer, size_t *place)
{
	size_t served = 0;

	*place = CK_DOWNLOADS;
	for (size_t i = 0; i < CK_DOWNLOADS; i++) {
		if (d->list[i].pid == 0)
			*place = i;
		else
			served += cks_peer_equal(&d->list[i].peer, peer);
	}
	return served;
}

static void serve_files(struct cks_downloads *d, const char *folder, int fd,
			const struct cks_peer *peer, const struct cks_peeked *call)
{
	const char *why = "the server sends its files to others; try again later";
	size_t place;
	int ret;

	if (find_place(d, peer, &place) >= CK_DOWNLOADS_OF_ONE) {
		why = "the server is sending its files to this address already; try again later";
	} else if (place < CK_DOWNLOADS) {
		d->list[place].peer = *peer;
		ret = start_download(folder, fd, &d->list[place].pid);
		if (ret == 0)
			return;
		ck_err("starting a process for the client's files: %s", strerror(-ret));
	}
	send_reply(fd, call, CK_FILES_BUSY, why);
}

void cks_downloads_serve(struct cks_downloads *d, struct cks_admission *a, int fd,
			 const struct cks_peer *peer, const unsigned char *bytes,
			 const struct cks_peeked *call)
{
	struct cks_owner owner = {.peer = *peer};
	ck_files_args args = {0};
	char why[CK_WHY_SIZE];
	XDR xdrs;

	xdrmem_create(&xdrs, (char *)(uintptr_t)bytes + call->args, (u_int)call->args_size,
		      XDR_DECODE);
	if (xdr_ck_files_args(&xdrs, &args)) {
		const struct cks_request request = {"cricket login",
						    "the client's files are refused",
						    args.token.token_val, args.token.token_len};

		if (cks_request_admit(a, fd, &request, &owner, why))
			serve_files(d, a->options->client_files, fd, peer, call);
		else
			send_reply(fd, call, CK_FILES_DENIED, why);
	}
	xdr_free((xdrproc_t)xdr_ck_files_args, &args);
}

bool cks_downloads_ended(struct cks_downloads *d, pid_t pid)
{
	for (size_t i = 0; i < CK_DOWNLOADS; i++) {
		if (d->list[i].pid != pid)
			continue;
		d->list[i].pid = 0;
		return true;
	}
	return false;
}
