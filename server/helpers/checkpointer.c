/*
 * server/helpers/checkpointer.c - the process that writes a parked worker into files, or sends it;
 * see helper.h.
 *
 * It outlives its supervisor: it completes the checkpoint, or lets the worker go on.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/criu.h"
#include "server/checkpoint/move.h"
#include "server/checkpoint/store.h"
#include "server/checkpoint/stream.h"
#include "server/checkpoint/worker_memory.h"
#include "server/helpers/gpu.h"
#include "server/helpers/helper.h"
#include "server/processes/messages.h"
#include "server/session/version.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define CK_ROUNDS 16		     /* of a move, at most */
#define CK_ROUND_SMALL (32ull << 20) /* bytes that are sent while the program waits */

static void fill_manifest(const char *session, const char *program, struct cks_manifest *m)
{
	snprintf(m->release, sizeof(m->release), "%s", CK_RELEASE);
	snprintf(m->session, sizeof(m->session), "%s", session);
	snprintf(m->application, sizeof(m->application), "%s", program);
}

/* The bytes before and after they were compressed, and those of them that an earlier checkpoint did
 * not have; of a move, the bytes of device memory that were sent. */
static json_t *report_success(const struct cks_manifest *m, const struct cks_move *move)
{
	uint64_t size = 0, stored = 0, written;

	for (size_t i = 0; i < m->image_count; i++) {
		size += m->images[i].size;
		stored += m->images[i].stored;
	}
	written = stored + (uint64_t)m->file.added * CK_MEMORY_PIECE;
	size += m->file.count * CK_MEMORY_PIECE;
	stored += (uint64_t)m->file.slots * CK_MEMORY_PIECE;
	return json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:i}", "ok", 1, "size", (json_int_t)size,
			 "stored", (json_int_t)stored, "written", (json_int_t)written, "memory",
			 (json_int_t)m->memory, "sent", (json_int_t)move->chunks->sent, "rounds",
			 (int)move->rounds);
}

/* Memory that its worker has moved off the GPU goes into a file; where it cannot be read, CRIU
 * writes it, as it does the rest. @pooled: the worker may go on, so it drops its memory only with
 * the pool. */
static void list_memory(struct cks_checkpoint_job *job, bool pooled, struct cks_memory_file *file,
			uint64_t saved, int pool)
{
	int ret = 0;

	if (pooled && saved) {
		job->pool = cks_worker_memory_pool(job->pid, pool);
		ret = job->pool;
	}
	if (!job->table || (pooled && job->pool < 0))
		ret = ret < 0 ? ret : 0;
	else if ((ret = cks_worker_memory_list(job->pid, job->table, file)) == 0 && pooled)
		ret = cks_worker_memory_marks(job->pid, saved, file);
	if (ret >= 0)
		return;
	ck_info("the memory of worker %d cannot be read: CRIU writes it", (int)job->pid);
	cks_memory_file_free(file);
	if (job->pool >= 0)
		close(job->pool);
	job->pool = -1;
}

/* CRIU checks that a file has its old size when it is opened again, unless it is one that is
 * appended to. The worker shares this open file. */
static void append_to_log(void)
{
	int flags = fcntl(STDERR_FILENO, F_GETFL);

	if (flags >= 0)
		fcntl(STDERR_FILENO, F_SETFL, flags | O_APPEND);
}

static json_t *report_failure(const struct cks_checkpoint_job *job, bool gone,
			      const struct cks_why *why)
{
	ck_err("checkpoint of worker %d: %s%s", (int)job->pid, why->text,
	       gone ? "; the session is lost" : "");
	return json_pack("{s:b, s:s, s:b}", "ok", 0, "error", why->text, "gone", gone);
}

static int remove_folder(const char *path)
{
	cks_store_remove(path);
	cks_helper_answer(json_pack("{s:b}", "ok", 1));
	return EXIT_SUCCESS;
}

/* Can a session be restored here, as far as that is known before it comes? */
static int describe_gpus(const char *driver, const char *criu)
{
	struct cks_manifest_gpu gpu;
	struct cks_why why;
	bool good = cks_criu_check(criu, &why) == 0 && cks_gpu_describe(driver, &gpu, &why) == 0;

	cks_helper_answer(
		good ? json_pack("{s:b, s:o}", "ok", 1, "gpu", cks_manifest_gpu_json(&gpu))
		     : json_pack("{s:b, s:s}", "ok", 0, "error", why.text));
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int write_worker(struct cks_checkpoint_job *job, struct cks_move *move,
			const json_t *request, struct cks_manifest *m, bool *gone,
			struct cks_why *why)
{
	const char *driver, *session, *program, *id = "";
	int moves = 0, replace = 0, pool = 0, ret;
	json_int_t memory, saved = 0;

	if (json_unpack((json_t *)(uintptr_t)request,
			"{s:s, s:s, s:s, s:s, s:I, s?b, s?b, s?s, s?I, s?i}", "criu", &job->criu,
			"driver", &driver, "session", &session, "program", &program, "memory",
			&memory, "move", &moves, "replace", &replace, "id", &id, "saved", &saved,
			"pool", &pool) < 0)
		return cks_why_set(why, EINVAL, "the request: %m");
	m->memory = (uint64_t)memory;
	snprintf(m->id, sizeof(m->id), "%s", id);
	job->replace = replace;
	fill_manifest(session, program, m);
	append_to_log();
	ret = job->checked ? 0 : cks_gpu_describe_all(driver, &m->gpu, why);
	if (ret < 0)
		return ret;
	if (!moves) {
		list_memory(job, job->keep, &m->file, (uint64_t)saved, pool);
		return cks_checkpoint_save(job, m, gone, why);
	}
	ret = cks_move_watch(move, json_integer_value(json_object_get(request, "format")), why);
	if (ret < 0)
		return ret;
	list_memory(job, true, &move->memory, (uint64_t)saved, pool);
	return cks_move_send(move, m, gone, why);
}

/* The worker may have given its pool up meanwhile. */
static bool has_chunks(const struct cks_chunks_source *source)
{
	struct stat st;

	return source->count > 0 && fstat(source->pool, &st) == 0 &&
	       (uint64_t)st.st_size >= (uint64_t)source->count * CK_MEMORY_PIECE;
}

/* Send the worker's copies of a round. 0; 1: it has copied nothing; or -errno. */
static int send_round(struct cks_move *move, struct cks_why *why)
{
	struct cks_chunks_source source = {.pool = -1, .changing = true};
	struct cks_piece_hash *marks = NULL;
	struct cks_pool_saved saved;
	json_int_t known = 0;
	json_t *answer;
	int fd = 0, ret = 1;

	cks_helper_round(true);
	answer = cks_helper_request();
	if (json_unpack(answer, "{s:I, s:i}", "known", &known, "pool", &fd) == 0 && known != 0)
		source.pool = cks_worker_memory_pool(move->job->pid, fd);
	json_decref(answer);
	if (source.pool >= 0 &&
	    cks_worker_memory_saved(move->job->pid, (uint64_t)known, &saved, &marks) == 0) {
		source.marks = marks;
		source.count = saved.count;
		source.key = saved.key;
		if (has_chunks(&source))
			ret = cks_chunks_send(move->chunks, move->stream, &source, why);
	}
	free(marks);
	if (source.pool >= 0)
		close(source.pool);
	return ret;
}

/* Rounds beside the program, until little has changed since the last one, or they do not shrink.
 * 0, or -errno: the other server has ended the move. */
static int send_rounds(struct cks_move *move, struct cks_why *why)
{
	uint64_t size = UINT64_MAX, last, before;
	int ret;

	do {
		last = size;
		before = move->chunks->sent;
		ret = send_round(move, why);
		size = move->chunks->sent - before;
		move->rounds += ret == 0;
	} while (ret == 0 && size > CK_ROUND_SMALL && size < last / 4 * 3 &&
		 move->rounds < CK_ROUNDS);
	return ret < 0 ? ret : 0;
}

/* What needs no pause of the program: checks of CRIU and of the GPUs, at both ends; connections. */
static int prepare_ends(struct cks_move *move, const json_t *request, struct cks_manifest *m,
			struct cks_why *why)
{
	json_int_t format = json_integer_value(json_object_get(request, "format"));
	const char *driver = json_string_value(json_object_get(request, "driver"));
	const char *criu = json_string_value(json_object_get(request, "criu"));
	const char *address = json_string_value(json_object_get(request, "address"));
	const json_t *lanes = json_object_get(request, "lanes");
	int ret = driver && criu ? cks_criu_check(criu, why) : cks_why_set(why, EINVAL, "%m");

	if (ret == 0)
		ret = cks_move_watch(move, format, why);
	if (ret == 0)
		ret = cks_gpu_describe_all(driver, &m->gpu, why);
	if (ret < 0 || format < CK_STREAM_GPUS)
		return ret;
	ret = cks_stream_write(move->stream,
			       json_pack("{s:o}", "gpu", cks_manifest_gpu_json(&m->gpu)));
	if (ret < 0)
		return cks_stream_failed(move->stream, ret, why);
	return lanes && address
		       ? cks_lanes_dial(lanes, address, move->stream, &move->chunks->lanes, why)
		       : 0;
}

/* Rounds, and then the request to send the rest; NULL: there is none. */
static json_t *prepare_move(struct cks_move *move, pid_t pid, const json_t *request,
			    struct cks_manifest *m)
{
	struct cks_checkpoint_job job = {.pid = pid};
	const struct cks_checkpoint_job *later = move->job;
	struct cks_why why;
	int ret;

	move->job = &job;
	ret = prepare_ends(move, request, m, &why);
	if (ret == 0)
		ret = send_rounds(move, &why);
	move->job = later;
	if (ret < 0) {
		cks_move_unwatch(move, ret, &why);
		cks_helper_answer(report_failure(&job, false, &why));
		return NULL;
	}
	cks_helper_round(false);
	return cks_helper_request();
}

int cks_checkpointer_main(void)
{
	struct cks_checkpoint_job job = {.pool = -1,
					 .control = CK_WORKER_CONTROL,
					 .log = STDERR_FILENO,
					 .supervisor = CK_HELPER_SOCKET,
					 .began = cks_helper_began,
					 .filed = cks_helper_filed,
					 .goes_on = cks_helper_goes_on};
	struct cks_chunks chunks = CK_CHUNKS_NONE;
	struct cks_move move = {.job = &job, .stream = CK_WORKER_CONTROL, .chunks = &chunks};
	struct cks_manifest *m = calloc(1, sizeof(*m));
	json_t *request = cks_helper_request(), *first;
	const char *folder = NULL, *driver, *criu;
	struct cks_why why;
	json_int_t table = 0;
	int pid, keep, filed = 0, pooled = 0, ret;
	bool gone = false;

	prctl(PR_SET_NAME, "cricket-ckpt");
	if (json_unpack(request, "{s:s}", "remove", &folder) == 0)
		return remove_folder(folder);
	if (json_unpack(request, "{s:s, s:s}", "describe", &driver, "criu", &criu) == 0)
		return describe_gpus(driver, criu);
	if (m && json_unpack(request, "{s:i}", "rounds", &pid) == 0) {
		first = request;
		request = prepare_move(&move, pid, first, m);
		json_decref(first);
		job.checked = true;
	}
	if (!m || json_unpack(request, "{s:s, s:i, s:b, s?I, s?s, s?b, s?b}", "directory",
			      &job.directory, "pid", &pid, "keep", &keep, "table", &table,
			      "recover", &folder, "filed", &filed, "pooled", &pooled) < 0)
		return EXIT_FAILURE;
	job.pid = pid;
	job.keep = keep;
	job.table = (uint64_t)table;
	job.pooled = pooled;
	ret = folder ? cks_checkpoint_recover(&job, folder, filed, m, &gone, &why)
		     : write_worker(&job, &move, request, m, &gone, &why);
	ret = cks_move_unwatch(&move, ret, &why);
	cks_helper_answer(ret == 0 ? report_success(m, &move) : report_failure(&job, gone, &why));
	cks_memory_file_free(&move.memory);
	cks_chunks_free(&chunks);
	cks_manifest_free(m);
	free(m);
	json_decref(request);
	return ret == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
