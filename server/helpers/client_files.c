/*
 * server/helpers/client_files.c - sends the client's files to one connection; see client_files.h.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "rpc/record.h"
#include "server/helpers/client_files.h"
#include "server/processes/messages.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_SILENCE_MS 30000 /* for the client to take more */
#define CK_WHOLE_S 600
#define CK_REPLY_SIZE 65536
#define CK_PART ((size_t)1 << 20)

static int read_call(struct ck_chan *chan, uint32_t *xid, ck_files_args *args)
{
	struct ck_call_header header;
	struct ck_reader *reader;
	struct ck_record record;
	XDR xdrs;
	int ret = ck_reader_create(chan, &reader);

	if (ret < 0)
		return ret;
	ret = ck_reader_next(reader, &record);
	if (ret == 0)
		ret = ck_call_decode(record.body, record.body_size, &header);
	if (ret == 0) {
		xdrmem_create(&xdrs, (char *)(uintptr_t)record.body + header.size,
			      (u_int)(record.body_size - header.size), XDR_DECODE);
		*xid = header.xid;
		if (!xdr_ck_files_args(&xdrs, args))
			ret = -EPROTO;
	}
	ck_reader_destroy(reader);
	return ret;
}

static int send_reply(struct ck_chan *chan, uint32_t xid, ck_files_res *res)
{
	char *bytes = malloc(CK_REPLY_SIZE);
	struct iovec iov = {.iov_base = bytes};
	long size = -ENOMEM;
	int ret;

	if (bytes)
		size = ck_reply_encode(bytes, CK_REPLY_SIZE, xid, (xdrproc_t)xdr_ck_files_res, res,
				       0);
	iov.iov_len = (size_t)size;
	ret = size < 0 ? (int)size : ck_chan_writev(chan, &iov, 1);
	free(bytes);
	return ret;
}

static int send_file(struct ck_chan *chan, int fd, size_t size)
{
	char *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	int ret = 0;

	if (bytes == MAP_FAILED)
		return -errno;
	for (size_t at = 0; ret == 0 && at < size; at += CK_PART) {
		struct iovec iov = {bytes + at, ck_min(size - at, CK_PART)};

		ret = ck_chan_writev(chan, &iov, 1);
	}
	munmap(bytes, size);
	return ret;
}

/* A record of its own: all bytes in one fragment. */
static int send_bytes(struct ck_chan *chan, const struct cks_client_files *f)
{
	uint32_t mark = htonl(0x80000000u | (uint32_t)f->bytes);
	struct iovec iov = {&mark, sizeof(mark)};
	int ret = f->bytes > CK_FILES_BYTES_MAX ? -EFBIG : ck_chan_writev(chan, &iov, 1);

	for (u_int i = 0; ret == 0 && i < f->res.files.files_len; i++) {
		if (f->fds[i] >= 0)
			ret = send_file(chan, f->fds[i], f->list[i].size);
	}
	return ret;
}

static int serve_files(struct ck_chan *chan, const char *folder, ck_files_args *args)
{
	static struct cks_client_files files;
	uint32_t xid = 0;
	int ret = read_call(chan, &xid, args);

	if (ret == 0)
		ret = cks_client_files_open(folder, args->machine, &files);
	if (ret == 0)
		ret = send_reply(chan, xid, &files.res);
	if (ret == 0 && files.res.status == CK_FILES_OK)
		ret = send_bytes(chan, &files);
	if (ret == 0)
		ck_info("%s: has the client's files (%zu bytes)", ck_chan_peer(chan),
			(size_t)files.bytes);
	else
		ck_info("%s: does not have the client's files: %s", ck_chan_peer(chan),
			strerror(-ret));
	cks_client_files_close(&files);
	return ret;
}

static const char *own_folder(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

	path[n > 0 ? n : 0] = '\0';
	*(n > 0 ? strrchr(path, '/') : path) = '\0';
	return path;
}

int cks_client_files_main(const char *folder)
{
	char own[PATH_MAX];
	ck_files_args args = {0};
	struct ck_chan *chan;
	int ret = ck_chan_adopt(CK_WORKER_CONNECTION, &chan);

	if (ret < 0)
		return 1;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing is lost with it */
	signal(SIGALRM, SIG_DFL);
	alarm(CK_WHOLE_S); /* however slowly the client takes it */
	ck_chan_timeout(chan, CK_SILENCE_MS);
	ret = serve_files(chan, folder ? folder : own_folder(own), &args);
	xdr_free((xdrproc_t)xdr_ck_files_args, &args);
	ck_chan_close(chan);
	return ret == 0 ? 0 : 1;
}
