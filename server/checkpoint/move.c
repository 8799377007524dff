/*
 * server/checkpoint/move.c - see move.h.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/checkpoint/criu.h"
#include "server/checkpoint/move.h"
#include "server/checkpoint/stream.h"

#define CK_MOVE_PATH (CK_STORE_PATH + 64)

/* --- sending */

int cks_move_watch(struct cks_move *v, json_int_t format, struct cks_why *why)
{
	int ret = v->watched ? 0 : cks_stream_watch_begin(&v->watch, v->stream, CK_STREAM_QUIET_MS);

	if (ret < 0)
		return cks_why_set(why, -ret, "a thread for the move: %m");
	v->watched = true;
	if (format >= CK_STREAM_ALIVE)
		cks_stream_limit(v->stream, CK_STREAM_QUIET_MS);
	return 0;
}

int cks_move_unwatch(struct cks_move *v, int ret, struct cks_why *why)
{
	bool still = v->watched && cks_stream_watch_end(&v->watch);

	v->watched = false;
	return still && ret < 0 ? cks_stream_broken(-ETIMEDOUT, why) : ret;
}

static int send_file(int dir, const char *name, void *data, struct cks_why *why)
{
	return cks_stream_send_file(*(const int *)data, dir, name, why);
}

static int send_rest(int stream, const char *images, const struct cks_manifest *m,
		     struct cks_why *why)
{
	int ret = cks_pack_each(images, send_file, &stream, why);

	if (ret < 0)
		return ret;
	ret = cks_stream_write(stream, json_pack("{s:o}", "manifest", cks_manifest_json(m)));
	return ret < 0 ? cks_stream_failed(stream, ret, why) : cks_stream_result(stream, why);
}

/* The worker's pool: all that the receiver does not have yet. Then the worker drops it. */
static int send_memory(const struct cks_move *v, struct cks_why *why)
{
	const struct cks_checkpoint_job *job = v->job;
	struct cks_piece_hash *marks = calloc(v->memory.count + 1, sizeof(*marks));
	const struct cks_chunks_source source = {
		.pool = job->pool, .marks = marks, .count = v->memory.count, .key = v->memory.key};
	int ret;

	if (!marks)
		return cks_why_set(why, ENOMEM, "%m");
	for (size_t i = 0; i < v->memory.count; i++)
		marks[i] = v->memory.pieces[i].mark;
	ret = cks_chunks_send(v->chunks, v->stream, &source, why);
	free(marks);
	return ret == 0 && v->memory.count > 0 ? cks_checkpoint_drop(job, &v->memory, why) : ret;
}

/* The worker is stopped from CRIU's success on. */
static int send_worker(const struct cks_move *v, const char *images, struct cks_manifest *m,
		       struct cks_why *why)
{
	const struct cks_checkpoint_job *job = v->job;
	char log[CK_MOVE_PATH], kept[CK_MOVE_PATH];
	struct cks_criu criu = {.program = job->criu,
				.images = images,
				.log = log,
				.kept = kept,
				.held = job->supervisor,
				.outside = &m->outside};
	int ret = v->memory.count > 0 || v->rounds > 0 ? send_memory(v, why) : 0;

	if (ret == 0) {
		ret = cks_stream_write(v->stream, json_pack("{s:b, s:b}", "pages", 1, "alive", 1));
		ret = ret < 0 ? cks_stream_failed(v->stream, ret, why) : 0;
	}
	if (ret < 0)
		return ret;
	snprintf(log, sizeof(log), "%s/dump.log", images);
	snprintf(kept, sizeof(kept), "%s.log", images);
	ret = cks_criu_dump(&criu, job->pid, CK_CRIU_STOPS, v->stream, why);
	if (ret < 0) {
		rename(log, kept);
		return ret;
	}
	unlink(log);
	ret = cks_checkpoint_supervised(job, why);
	return ret == 0 ? send_rest(v->stream, images, m, why) : ret;
}

int cks_move_send(const struct cks_move *v, struct cks_manifest *m, bool *gone, struct cks_why *why)
{
	const struct cks_checkpoint_job *job = v->job;
	char images[] = "/var/tmp/cricket-move-XXXXXX";
	int ret = cks_checkpoint_describe(job, m, why);

	*gone = false;
	if (ret < 0)
		return ret;
	umask(077);
	if (!mkdtemp(images))
		return cks_why_set(why, errno, "%s: %m", images);
	if (job->began)
		job->began(images);
	ret = send_worker(v, images, m, why);
	if (ret == 0) {
		/* ended first: it is never in two places */
		kill(job->pid, SIGKILL);
		cks_stream_write(v->stream, json_pack("{s:b}", "ok", 1));
	} else {
		/* a receiver that has it may hear of this only by that */
		cks_stream_write(v->stream, json_pack("{s:b}", "ok", 0));
		*gone = cks_checkpoint_give_back(job, &v->memory) < 0;
		kill(job->pid, *gone ? SIGKILL : SIGCONT);
	}
	cks_store_remove(images);
	return ret;
}

/* --- receiving */

/* A session that cannot be restored here is refused before its program has to wait. */
static int check_gpus(const json_t *json, const struct cks_manifest_gpu *here, struct cks_why *why)
{
	struct cks_manifest_gpu *there = calloc(1, sizeof(*there));
	int ret;

	if (!there)
		ret = cks_why_set(why, ENOMEM, "%m");
	else if (!cks_manifest_gpu_take(json, there))
		ret = cks_why_set(why, EBADMSG, "the other server does not name its GPUs");
	else
		ret = here ? cks_manifest_fits(there, here, why) : 0;
	free(there);
	return ret;
}

/* The sender's GPUs, lanes, and device memory as often as it comes; an older server sends none of
 * these. It ends with the pages. */
static int receive_memory(struct cks_arrival *a, struct cks_why *why)
{
	bool pages = false;
	int ret = 0;

	while (ret == 0 && !pages) {
		json_t *json = cks_stream_read(a->stream, why);

		if (!json)
			return -EPIPE;
		pages = json_is_true(json_object_get(json, "pages"));
		if (json_object_get(json, "gpu"))
			ret = check_gpus(json_object_get(json, "gpu"), a->here, why);
		else if (json_object_get(json, "lanes"))
			ret = cks_lanes_accept(a->door, a->stream, json, &a->chunks.lanes, why);
		else if (pages)
			cks_stream_alive_begin(&a->alive, a->stream, json);
		else
			ret = cks_chunks_take(&a->chunks, a->stream, json, why);
		json_decref(json);
	}
	cks_lanes_close(a->door);
	if (ret == 0 && !cks_chunks_complete(&a->chunks))
		ret = cks_why_set(why, EBADMSG, "the other server has not sent all memory");
	return ret;
}

static int receive_pages(const char *program, int stream, const char *images, struct cks_why *why)
{
	char log[CK_MOVE_PATH];
	struct cks_criu criu = {.program = program, .images = images, .log = log};
	int ret;

	snprintf(log, sizeof(log), "%s/pages.log", images);
	ret = cks_criu_take_pages(&criu, stream, why);
	if (ret == 0)
		unlink(log);
	return ret;
}

/* A file that came, also by CRIU, into the manifest. It has no hash: it does not stay. */
static int list_image(int dir, const char *name, void *manifest, struct cks_why *why)
{
	struct cks_packed image = {.plain = true};
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return cks_why_set(why, errno, "%s: %m", name);
	snprintf(image.name, sizeof(image.name), "%s", name);
	image.size = image.stored = (uint64_t)st.st_size;
	return cks_manifest_add(manifest, &image) < 0 ? cks_why_set(why, ENOMEM, "%s: %m", name)
						      : 0;
}

/* Files until the manifest comes; that into @m, the caller's to free. */
static int receive_files(int stream, int dir, struct cks_manifest *m, struct cks_why *why)
{
	const json_t *manifest = NULL;
	int ret = 0;

	while (ret == 0 && !manifest) {
		json_t *json = cks_stream_read(stream, why);

		if (!json)
			return -EPIPE;
		manifest = json_object_get(json, "manifest");
		ret = manifest ? cks_manifest_take(manifest, m, why)
			       : cks_stream_take_file(stream, dir, json, why);
		json_decref(json);
	}
	return ret;
}

int cks_move_receive(struct cks_arrival *a, struct cks_why *why)
{
	struct cks_manifest *m = calloc(1, sizeof(*m));
	int ret = m ? receive_memory(a, why) : cks_why_set(why, ENOMEM, "%m");

	if (ret == 0)
		ret = receive_pages(a->criu, a->stream, a->store->part, why);
	if (ret == 0) {
		ret = receive_files(a->stream, a->store->dir, m, why);
		if (ret == 0)
			ret = cks_pack_each(a->store->part, list_image, m, why);
		if (ret == 0)
			ret = cks_manifest_write(a->store->dir, m, why);
		cks_manifest_free(m);
	}
	free(m);
	if (ret == 0 && !cks_stream_waits(a->stream))
		ret = cks_why_set(why, ECANCELED, "the other server has given the move up");
	return ret;
}

int cks_move_confirm(int stream, json_t *result)
{
	struct cks_why why;
	int ret = cks_stream_write(stream, result);
	/* one that has given up and gone has said so before */
	bool reads = ret == 0 || ret == -EPIPE || ret == -ECONNRESET;
	json_t *said = reads ? cks_stream_read(stream, &why) : NULL;

	if (said)
		ret = json_is_true(json_object_get(said, "ok")) ? 0 : -ECANCELED;
	else
		ret = -EPIPE;
	json_decref(said);
	return ret;
}
