/*
 * command/login/fetch.c - see fetch.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "command/config/command.h"
#include "command/login/fetch.h"
#include "command/servers/connection.h"
#include "util/hash.h"

#define SILENCE_MS 30000
#define XID 1

static int send_request(struct ckx_fetch *f, const struct ckx_server *server)
{
	struct utsname own;
	ck_files_args args = {
		.token = {(u_int)strlen(server->token), (char *)(uintptr_t)server->token},
		.release = (char *)(uintptr_t)CK_RELEASE,
		.machine = uname(&own) == 0 ? own.machine : (char *)"",
	};
	char out[CKX_TOKEN + 512];
	long size = ck_call_encode(out, sizeof(out), XID, CK_FILES, (xdrproc_t)xdr_ck_files_args,
				   &args, 0);
	struct iovec iov = {out, (size_t)size};
	int ret = size < 0 ? (int)size : ck_chan_writev(f->chan, &iov, 1);

	explicit_bzero(out, sizeof(out));
	return ret;
}

static int receive_reply(struct ckx_fetch *f, char why[CKX_FILES_WHY])
{
	struct ck_record record;
	int ret = ck_reader_next(f->reader, &record);

	if (ret < 0) {
		snprintf(why, CKX_FILES_WHY, "it does not answer: %s", ckx_connection_error(ret));
		return ret;
	}
	return ckx_files_decode(record.body, record.body_size, &f->res, why);
}

int ckx_fetch_open(const struct ckx_server *server, struct ckx_fetch *f)
{
	char text[2 * CKX_TEXT + 8], why[CKX_FILES_WHY] = "out of memory";
	struct ckx_connection reach;
	int ret;

	memset(f, 0, sizeof(*f));
	ckx_server_text(server, text);
	ret = ckx_connection_open(server, &reach, &f->chan);
	if (ret < 0) {
		f->chan = NULL;
		ckx_error("no client from %s: %s", text, reach.why);
		return ret == -EACCES ? -ECONNREFUSED : ret;
	}
	ck_chan_timeout(f->chan, SILENCE_MS);
	ret = ck_reader_create(f->chan, &f->reader);
	if (ret == 0)
		ret = send_request(f, server);
	if (ret == 0)
		ret = receive_reply(f, why);
	if (ret == 0)
		return 0;
	if (ret != -EACCES)
		ckx_error("no client from %s: %s", text, why);
	memset(&f->res, 0, sizeof(f->res)); /* freed by its decoder */
	ckx_fetch_close(f);
	return ret;
}

/* One of them, which is kept only if it is as the list says. */
static int take_one(struct ckx_fetch *f, const ck_file *file,
		    int (*take)(void *data, const ck_file *file, const void *bytes), void *data)
{
	void *bytes = malloc(file->size);
	struct ck_hash hash;
	int ret = bytes ? ck_reader_bulk(f->reader, bytes, file->size) : -ENOMEM;

	if (ret < 0) {
		ckx_error("%s has not arrived: %s", file->name, ckx_connection_error(ret));
	} else {
		ck_hash(bytes, file->size, &hash);
		ret = memcmp(hash.bytes, file->hash, sizeof(hash.bytes)) == 0
			      ? take(data, file, bytes)
			      : (ckx_error("%s is damaged: its hash is wrong", file->name),
				 -EBADMSG);
	}
	free(bytes);
	return ret;
}

int ckx_fetch_bytes(struct ckx_fetch *f,
		    int (*take)(void *data, const ck_file *file, const void *bytes), void *data)
{
	struct ck_record record;
	int ret = ck_reader_next(f->reader, &record);

	if (ret == 0)
		ret = ck_reader_bulk_begin(f->reader, 0);
	if (ret < 0) {
		ckx_error("the files have not arrived: %s", ckx_connection_error(ret));
		return ret;
	}
	for (u_int i = 0; ret == 0 && i < f->res.files.files_len; i++) {
		const ck_file *file = &f->res.files.files_val[i];

		if (!file->target[0])
			ret = take_one(f, file, take, data);
	}
	return ret;
}

void ckx_fetch_close(struct ckx_fetch *f)
{
	xdr_free((xdrproc_t)xdr_ck_files_res, &f->res);
	ck_reader_destroy(f->reader);
	if (f->chan)
		ck_chan_close(f->chan);
	memset(f, 0, sizeof(*f));
}
