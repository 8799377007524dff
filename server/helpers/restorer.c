/*
 * server/helpers/restorer.c - the process that makes a worker again from files; see helper.h.
 *
 * To the supervisor it is the worker: it ends with the worker, in the same way, and the worker is
 * killed with it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/checkpoint/checkpoint.h"
#include "util/process/pid_namespace.h"
#include "server/helpers/gpu.h"
#include "server/helpers/helper.h"
#include "server/processes/messages.h"
#include "server/session/device_map.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/util.h"
#include "util/uuid.h"

CK_LOG_DEFINE("server");

#define CK_INHERITED 10 /* the first descriptor for them: CRIU gives 0 to 2 another meaning */

/* Control socket and log of this process become the worker's. */
static int pass_descriptors(int inherited[CK_EXTERNAL_FDS_ROLES], struct cks_why *why)
{
	inherited[CK_EXTERNAL_FDS_CONTROL] =
		fcntl(CK_WORKER_CONTROL, F_DUPFD_CLOEXEC, CK_INHERITED);
	inherited[CK_EXTERNAL_FDS_LOG] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, CK_INHERITED);
	if (inherited[CK_EXTERNAL_FDS_CONTROL] < 0 || inherited[CK_EXTERNAL_FDS_LOG] < 0)
		return cks_why_set(why, errno, "descriptors for the worker: %m");
	close(CK_WORKER_CONTROL);
	return 0;
}

/* The worker's end of the control socket must be the only one, so that the supervisor sees it
 * close. */
static void give_up(const int inherited[CK_EXTERNAL_FDS_ROLES])
{
	for (int i = 0; i < CK_EXTERNAL_FDS_ROLES; i++)
		close(inherited[i]);
}

/* A worker that is back. */
struct restored {
	pid_t pid;    /* as the server knows it */
	pid_t child;  /* it, or the init process of its namespace */
	int report;   /* from that process; -1: there is none */
	json_t *gpus; /* of the machine that it comes from; NULL: of this one */
};

/* --- a worker in a namespace of its own */

/* Reports of its init process: first with the worker's id there, then with its wait status. */
struct report {
	int ret;
	pid_t id;
	int status;
	struct cks_why why;
};

static pid_t highest_id(const struct cks_manifest *m)
{
	pid_t id = m->pid;

	for (size_t i = 0; i < m->thread_count; i++)
		id = ck_max(id, m->threads[i]);
	return id;
}

/* The init process: makes the worker its child, and reaps until that has ended. */
static _Noreturn void be_init(const struct cks_checkpoint_job *job, int dir,
			      const struct cks_manifest *m, const int *inherited, int out)
{
	struct report r = {.ret = 0};
	pid_t ended = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setsid(); /* CRIU dumps no process whose session is led from outside of its namespace */
	close(CK_HELPER_SOCKET);
	r.ret = ck_pid_namespace_begin(highest_id(m));
	if (r.ret < 0)
		cks_why_set(&r.why, -r.ret, "a namespace for the worker: %m");
	else
		r.ret = cks_checkpoint_restore(job, dir, m, inherited, &r.id, &r.why);
	give_up(inherited);
	if (ck_fd_write_full(out, &r, sizeof(r)) < 0 || r.ret < 0)
		_exit(CK_RESTORE_FAILED);
	while (ended != r.id) {
		ended = wait(&r.status);
		if (ended < 0 && errno != EINTR)
			_exit(CK_RESTORE_FAILED);
	}
	ck_fd_write_full(out, &r, sizeof(r));
	ck_pid_namespace_wait();
	_exit(0);
}

static int restore_apart(const struct cks_checkpoint_job *job, int dir, bool copy,
			 const struct cks_manifest *m, const int *inherited,
			 struct restored *restored, struct cks_why *why)
{
	struct report r;
	int ends[2], ret;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return cks_why_set(why, errno, "pipe: %m");
	ret = ck_pid_namespace_create(copy);
	if (ret < 0)
		return cks_why_set(why, -ret,
				   "process ids of the worker are in use, and no "
				   "namespace for it can be made: %m");
	restored->child = fork();
	if (restored->child < 0)
		return cks_why_set(why, errno, "fork: %m");
	if (restored->child == 0)
		be_init(job, dir, m, inherited, ends[1]);
	close(ends[1]);
	restored->report = ends[0];
	if (ck_fd_read_full(ends[0], &r, sizeof(r)) < 0)
		return cks_why_set(why, EIO, "the init process of the namespace has ended");
	*why = r.why;
	if (r.ret < 0)
		return r.ret;
	restored->pid = ck_pid_namespace_outer(restored->child, r.id);
	return restored->pid < 0 ? cks_why_set(why, ESRCH, "the worker has ended") : 0;
}

/* --- any worker */

/* The GPUs that the worker has left, if some are not here. */
static json_t *list_gpus(const struct cks_manifest_gpu *there, const struct cks_manifest_gpu *here)
{
	char text[CK_MAP_GPUS * CK_UUID_TEXT];
	bool moved = false;
	size_t at = 0;

	for (size_t i = 0; i < there->count + there->hidden_count && i < CK_MAP_GPUS; i++) {
		const struct cks_manifest_device *d =
			i < there->count ? &there->devices[i] : &there->hidden[i - there->count];

		moved |= i < there->count && !cks_manifest_names(here, d->uuid);
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%.*s", i ? "," : "",
				       CK_UUID_TEXT - 2, d->uuid);
	}
	return moved ? json_string(text) : NULL;
}

/* The supervisor has it read once for all copies, beside CRIU's work. */
static void ask_memory(const struct cks_manifest *m)
{
	char hash[CK_HASH_TEXT];

	ck_hash_print(&m->hash, hash);
	if (m->file.count > 0)
		cks_helper_memory(hash);
}

/* In this namespace. -EEXIST: an id is in use; another process may take it until CRIU needs it. */
static int restore_here(const struct cks_checkpoint_job *job, int dir, const struct cks_manifest *m,
			const int *inherited, struct restored *restored, struct cks_why *why)
{
	int ret = -EEXIST;

	if (cks_checkpoint_ids_free(m))
		ret = cks_checkpoint_restore(job, dir, m, inherited, &restored->pid, why);
	restored->child = restored->pid;
	return ret;
}

/* Of several that are made at a time, each would find the ids free. And NVIDIA's driver binds an
 * abstract socket of the same name in each. So a @copy has namespaces of its own. */
static int restore_worker(const struct cks_checkpoint_job *job, const char *driver,
			  const json_t *gpu, bool copy, struct cks_manifest *m,
			  struct restored *restored, struct cks_why *why)
{
	struct cks_manifest_gpu here = {.count = 0};
	int inherited[CK_EXTERNAL_FDS_ROLES];
	int dir = cks_checkpoint_open(job->directory, m, why);
	int ret;

	if (dir < 0)
		return dir;
	ret = gpu && cks_manifest_gpu_take(gpu, &here) ? 0 : cks_gpu_describe(driver, &here, why);
	if (ret == 0)
		ret = cks_manifest_fits(&m->gpu, &here, why);
	if (ret == 0 && job->shares)
		ask_memory(m);
	if (ret == 0)
		ret = pass_descriptors(inherited, why);
	if (ret == 0) {
		ret = copy ? -EEXIST : restore_here(job, dir, m, inherited, restored, why);
		if (ret == -EEXIST)
			ret = restore_apart(job, dir, copy, m, inherited, restored, why);
	}
	if (ret == 0)
		give_up(inherited);
	restored->gpus = list_gpus(&m->gpu, &here);
	close(dir);
	return ret;
}

/* The wait status of the worker. */
static int wait_for(const struct restored *restored)
{
	struct report r = {.status = SIGKILL}; /* of an init process that was killed */
	int status;

	if (restored->report >= 0)
		ck_fd_read_full(restored->report, &r, sizeof(r));
	while (waitpid(restored->child, &status, 0) < 0 && errno == EINTR)
		;
	return restored->report >= 0 ? r.status : status;
}

/* Wait for the worker, and end as it did. */
static int follow_worker(const struct restored *restored)
{
	const struct rlimit no_core = {0, 0};
	int status = wait_for(restored);

	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	setrlimit(RLIMIT_CORE, &no_core); /* the worker has left its own */
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

/* --- the memory of copies */

static int load_memory(const char *directory, const char *hash, struct cks_manifest *m,
		       struct cks_why *why)
{
	int dir = cks_checkpoint_open(directory, m, why);
	char text[CK_HASH_TEXT];
	int ret;

	if (dir < 0)
		return dir;
	ck_hash_print(&m->hash, text);
	ret = strcmp(text, hash) == 0 ? cks_memory_file_load(&m->file, dir, CK_WORKER_CONTROL,
							     CK_HELPER_SOCKET, why)
				      : cks_why_set(why, ESTALE, "it is another one now");
	close(dir);
	return ret;
}

static int serve_memory(const char *directory, const char *hash)
{
	struct cks_manifest *m = calloc(1, sizeof(*m));
	struct cks_why why;
	int ret;

	prctl(PR_SET_NAME, "cricket-memory");
	ret = m ? load_memory(directory, hash, m, &why) : cks_why_set(&why, ENOMEM, "%m");
	if (ret < 0) {
		ck_err("memory of copies from %s: %s", directory, why.text);
		cks_helper_answer(json_pack("{s:b, s:s}", "ok", 0, "error", why.text));
		return EXIT_FAILURE;
	}
	ck_info("memory of copies from %s: %zu MiB", directory,
		m->file.count * CK_MEMORY_PIECE >> 20);
	cks_helper_answer(json_pack("{s:b}", "ok", 1));
	return EXIT_SUCCESS;
}

int cks_restorer_main(void)
{
	struct cks_checkpoint_job job = {0};
	struct restored restored = {.report = -1};
	struct cks_manifest *m = calloc(1, sizeof(*m));
	json_t *request = cks_helper_request();
	json_t *gpu = NULL;
	const char *driver, *hash;
	struct cks_why why;
	int copy = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "cricket-restore");
	signal(SIGINT, SIG_IGN);
	if (json_unpack(request, "{s:s, s:s}", "directory", &job.directory, "memory", &hash) == 0)
		return serve_memory(job.directory, hash);
	if (!m || json_unpack(request, "{s:s, s:s, s:s, s?b, s?o}", "criu", &job.criu, "directory",
			      &job.directory, "driver", &driver, "copy", &copy, "gpu", &gpu) < 0)
		return CK_RESTORE_FAILED;
	job.checked = gpu != NULL;
	job.shares = copy;
	if (restore_worker(&job, driver, gpu, copy, m, &restored, &why) < 0) {
		ck_err("restore from %s: %s", job.directory, why.text);
		cks_helper_answer(json_pack("{s:b, s:s}", "ok", 0, "error", why.text));
		return CK_RESTORE_FAILED;
	}
	ck_info("worker %d of session %s is restored from %s", (int)restored.pid, m->session,
		job.directory);
	cks_helper_answer(json_pack("{s:b, s:i, s:s, s:s, s:I, s:s, s:o*}", "ok", 1, "pid",
				    (int)restored.pid, "session", m->session, "program",
				    m->application, "memory", (json_int_t)m->memory, "id", m->id,
				    "gpus", restored.gpus));
	cks_manifest_free(m);
	free(m);
	json_decref(request);
	return follow_worker(&restored);
}
