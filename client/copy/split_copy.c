/*
 * client/copy/split_copy.c - see client/copy/split_copy.h.
 *
 * Each connection gets an equal part; with a server on this host, it may pass a shared window
 * (staging.c). Large uploads to another machine have smaller parts, which do not wait for replies
 * (compressed_upload.c).
 */
#include <unistd.h>

#include "client/copy/compressed_upload.h"
#include "client/copy/split_copy.h"
#include "client/managed/managed.h"
#include "client/wire/compression.h"
#include "client/wire/striping.h"

/* So many bytes of each connection may wait in buffers of sockets. A thread that has sent its part
 * is then no sign that its connection is free: it would take the parts of all others. */
#define BUFFERED ((size_t)16 << 20)

/* A copy, and how its bytes travel. */
struct transfer {
	struct ckc_staged copy;
	uint64_t stream;
	bool packed;
};

static struct ckc_staged part_of(const struct transfer *t, size_t at, size_t size)
{
	struct ckc_staged part = t->copy;

	part.device += at;
	part.host = (char *)part.host + at;
	part.size = size;
	return part;
}

/* Through a window, or by a call. */
static CUresult upload_part(const struct transfer *t, size_t at, size_t size)
{
	const struct ckc_staged part = part_of(t, at, size);
	CUresult err = CUDA_SUCCESS;

	if (ckc_staging_upload(&part, &err))
		return err;
	for (size_t done = 0; done < size && !err; done += CK_PART_MOST)
		err = ck_wire_upload_part(part.ctx->object.id, part.device + done, t->stream,
					  (char *)part.host + done,
					  ck_min(size - done, CK_PART_MOST));
	return err;
}

static CUresult upload_near(const void *transfer, struct ckc_share *share)
{
	CUresult err = CUDA_SUCCESS;
	size_t at, size;

	while (!err && ckc_share_next(share, &at, &size))
		err = upload_part(transfer, at, size);
	return err;
}

/* To another machine: the next part only when the one before it has arrived. */
static CUresult upload_far(const void *transfer, struct ckc_share *share)
{
	const struct transfer *t = transfer;
	CUresult err = CUDA_SUCCESS;
	struct ckc_compressed_upload sending;
	size_t at, size;

	while (!err && ckc_share_next(share, &at, &size)) {
		ckc_compressed_upload_begin(&sending, t->copy.ctx, t->stream, t->packed);
		ckc_compressed_upload_bytes(&sending, t->copy.device + at,
					    (char *)t->copy.host + at, size);
		err = ckc_compressed_upload_end(&sending);
	}
	return err;
}

/* The same for a copy that no buffers hold: the next part as soon as there is room for it. */
static CUresult upload_ahead(const void *transfer, struct ckc_share *share)
{
	const struct transfer *t = transfer;
	CUresult err = CUDA_SUCCESS;
	struct ckc_compressed_upload sending;
	size_t at, size;

	ckc_compressed_upload_begin(&sending, t->copy.ctx, t->stream, t->packed);
	while (!err && ckc_share_next(share, &at, &size))
		err = ckc_compressed_upload_bytes(&sending, t->copy.device + at,
						  (char *)t->copy.host + at, size);
	return ckc_compressed_upload_end(&sending);
}

static CUresult download_part(const struct transfer *t, size_t at, size_t size)
{
	const struct ckc_staged part = part_of(t, at, size);
	CUresult err = CUDA_SUCCESS;

	if (ckc_staging_download(&part, &err))
		return err;
	for (size_t done = 0; done < size && !err; done += CK_PART_MOST) {
		struct ckc_sink sink = {(char *)part.host + done,
					ck_min(size - done, CK_PART_MOST)};

		err = ck_wire_download(part.ctx->object.id, part.device + done, t->stream,
				       sink.size, 0, &sink);
	}
	return err;
}

static CUresult download_share(const void *transfer, struct ckc_share *share)
{
	CUresult err = CUDA_SUCCESS;
	size_t at, size;

	while (!err && ckc_share_next(share, &at, &size))
		err = download_part(transfer, at, size);
	return err;
}

/* Other client threads may make the calls, so note an error for the context here. */
static CUresult transfer_parts(const struct ckc_staged *copy, ckc_share_fn fn, bool packed)
{
	unsigned int flags = (fn != upload_ahead ? CK_STRIPING_EVEN : 0) |
			     (fn == download_share ? CK_STRIPING_DOWN : 0) |
			     (packed ? 0 : CK_STRIPING_PLAIN);
	struct transfer t = {*copy, copy->stream ? copy->stream->object.id : 0, packed};
	CUresult err = CUDA_ERROR_DEVICE_UNAVAILABLE;

	t.copy.host = ckc_managed_host(copy->host, copy->size, fn == download_share);
	if (t.copy.host)
		err = ckc_striping(copy->ctx->client, fn, &t, copy->size, flags);
	if (err)
		ckc_context_outcome(copy->ctx->object.id, err);
	return err;
}

static ckc_share_fn upload_to(struct ckc_client *c, size_t size)
{
	if (c->passes_fds)
		return upload_near;
	return size < BUFFERED * ckc_striping_width(c, 0) ? upload_far : upload_ahead;
}

CUresult ckc_split_copy_upload(const struct ckc_staged *copy)
{
	struct ckc_client *c = copy->ctx->client;
	/* more would only take turns in compressing */
	unsigned int threads =
		ck_min(ckc_striping_width(c, 0), (unsigned int)sysconf(_SC_NPROCESSORS_ONLN));
	const struct transfer whole = {.copy = *copy};
	CUresult err = CUDA_SUCCESS;

	for (size_t at = 0; at < copy->size && !err;) {
		struct ckc_compression_step step = ckc_compression_step(
			c, CK_PROC_upload_packed_part, copy->size - at, threads);
		struct ckc_staged part;

		if (!step.packed)
			step.size = ckc_striping_step(c, 0, step.size);
		part = part_of(&whole, at, step.size);
		err = transfer_parts(&part, upload_to(c, step.size), step.packed);
		if (!err)
			ckc_compression_stepped(c, &step);
		at += step.size;
	}
	ckc_command_called();
	return err;
}

CUresult ckc_split_copy_download(const struct ckc_staged *copy)
{
	const struct transfer whole = {.copy = *copy};
	CUresult err = CUDA_SUCCESS;

	for (size_t at = 0, size; at < copy->size && !err; at += size) {
		struct ckc_staged part;

		size = ckc_striping_step(copy->ctx->client, CK_STRIPING_DOWN, copy->size - at);
		part = part_of(&whole, at, size);
		err = transfer_parts(&part, download_share, false);
	}
	return err;
}
