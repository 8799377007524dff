/*
 * server/checkpoint/checkpoint.c - see checkpoint.h.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/criu.h"
#include "util/process/pid_namespace.h"
#include "server/checkpoint/socket_names.h"
#include "server/checkpoint/store.h"
#include "server/checkpoint/worker_memory.h"
#include "server/processes/pool_table.h"
#include "util/util.h"

#define CK_CHECKPOINT_PATH (CK_STORE_PATH + 64)

/* --- the threads of a process */

static int add_thread(struct cks_manifest *m, pid_t id)
{
	pid_t *more;

	if (id < 0)
		return id;
	more = realloc(m->threads, (m->thread_count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	m->threads = more;
	m->threads[m->thread_count++] = id;
	return 0;
}

static int list_threads(pid_t pid, struct cks_manifest *m, struct cks_why *why)
{
	struct dirent *entry;
	char path[32];
	int ret = 0;
	DIR *dir;

	m->pid = ck_pid_namespace_inner(pid, pid);
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return cks_why_set(why, errno, "worker %d: %m", (int)pid);
	while (ret == 0 && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			ret = add_thread(m, ck_pid_namespace_inner(pid, atoi(entry->d_name)));
	}
	closedir(dir);
	return ret < 0 ? cks_why_set(why, -ret, "worker %d: %m", (int)pid) : 0;
}

/* --- saving */

struct packing {
	int to; /* the checkpoint's folder */
	struct cks_manifest *manifest;
};

static int pack_one(int from, const char *name, void *data, struct cks_why *why)
{
	const struct packing *p = data;
	struct cks_packed image;
	int ret = cks_pack_file(from, p->to, name, &image, why);

	if (ret == 0 && cks_manifest_add(p->manifest, &image) < 0)
		ret = cks_why_set(why, ENOMEM, "%s: %m", name);
	/* the memory is there twice only as long as it must be */
	unlinkat(from, name, 0);
	return ret;
}

static int pack_all(const char *images, int to, struct cks_manifest *m, struct cks_why *why)
{
	struct packing packing = {.to = to, .manifest = m};
	int ret = cks_pack_each(images, pack_one, &packing, why);

	if (ret == 0 && rmdir(images) < 0)
		ret = cks_why_set(why, errno, "%s: %m", images);
	return ret;
}

/* A folder that is being written, and what is known of an earlier checkpoint. */
struct saving {
	const struct cks_checkpoint_job *job;
	struct cks_store store;
	struct cks_manifest *manifest, earlier;
	int earlier_dir; /* -1: there is none of the session */
	bool goes_on;	 /* the worker does */
};

static int save_memory(struct saving *s, struct cks_why *why)
{
	const struct cks_memory_source source = {.pid = s->job->pid, .pool = s->job->pool};

	return cks_memory_file_save(&s->manifest->file, &source, s->store.dir,
				    s->earlier_dir >= 0 ? &s->earlier.file : NULL, s->earlier_dir,
				    why);
}

static int dump_worker(struct saving *s, struct cks_why *why)
{
	const struct cks_checkpoint_job *job = s->job;
	char images[CK_CHECKPOINT_PATH], log[CK_CHECKPOINT_PATH], kept[CK_CHECKPOINT_PATH];
	struct cks_criu criu = {.program = job->criu,
				.images = images,
				.log = log,
				.kept = kept,
				.held = job->supervisor,
				.outside = &s->manifest->outside};
	int ret;

	snprintf(images, sizeof(images), "%s/images", s->store.part);
	snprintf(log, sizeof(log), "%s/dump.log", s->store.part);
	snprintf(kept, sizeof(kept), "%s.dump.log", s->store.path);
	if (mkdir(images, 0700) < 0)
		return cks_why_set(why, errno, "%s: %m", images);
	ret = cks_criu_dump(&criu, job->pid, job->keep ? CK_CRIU_GOES_ON : CK_CRIU_STOPS,
			    CK_CRIU_FILES, why);
	if (ret == 0)
		ret = cks_checkpoint_supervised(job, why);
	else
		rename(log, kept);
	if (ret < 0)
		return ret;
	s->goes_on = job->keep;
	if (job->keep && job->goes_on)
		job->goes_on();
	s->manifest->created = (long long)time(NULL);
	if (job->pool >= 0)
		ret = save_memory(s, why);
	return ret == 0 ? pack_all(images, s->store.dir, s->manifest, why) : ret;
}

int cks_checkpoint_supervised(const struct cks_checkpoint_job *job, struct cks_why *why)
{
	struct pollfd p = {.fd = job->supervisor, .events = POLLRDHUP};

	if (job->supervisor == 0 || poll(&p, 1, 0) == 0)
		return 0;
	return cks_why_set(why, ECANCELED, "the server has ended");
}

/* Memory that CRIU is not to write leaves the worker first: into files, which the manifest lists
 * from now on, for cks_checkpoint_recover(); or with the file that it is in. */
static int file_memory(struct saving *s, struct cks_why *why)
{
	const struct cks_checkpoint_job *job = s->job;
	int ret = 0;

	if (s->manifest->file.count == 0)
		return 0;
	if (job->pool < 0) {
		ret = save_memory(s, why);
		if (ret == 0)
			ret = cks_manifest_write(s->store.dir, s->manifest, why);
	}
	return ret < 0 ? ret : cks_checkpoint_drop(job, &s->manifest->file, why);
}

int cks_checkpoint_drop(const struct cks_checkpoint_job *job, const struct cks_memory_file *file,
			struct cks_why *why)
{
	int ret;

	job->filed();
	ret = cks_worker_memory_wait(job->pid, file->state, true);
	if (ret == CK_POOL_COMPLETE && job->pool >= 0)
		ret = -ETIMEDOUT; /* CRIU would also write memory that the pool restores later */
	return ret < 0 ? cks_why_set(why, -ret, "worker %d: dropping memory: %m", (int)job->pid)
		       : 0;
}

int cks_checkpoint_give_back(const struct cks_checkpoint_job *job,
			     const struct cks_memory_file *file)
{
	const struct cks_memory_source source = {.pid = job->pid, .pool = job->pool};
	struct cks_why why;

	return file->count > 0 ? cks_memory_file_give_back(file, &source, &why) : 0;
}

/* The worker has not gone on: return the memory that it has dropped. */
static int undo(const struct saving *s)
{
	const struct cks_memory_file *file = &s->manifest->file;
	struct cks_why why;

	if (s->job->pool >= 0)
		return cks_checkpoint_give_back(s->job, file);
	return cks_memory_file_fill(file, s->job->pid, s->store.dir, &why);
}

static int save_worker(struct saving *s, bool *gone, struct cks_why *why)
{
	int ret = file_memory(s, why);

	if (ret == 0)
		ret = dump_worker(s, why);
	if (ret == 0)
		ret = cks_manifest_write(s->store.dir, s->manifest, why);
	if (ret == 0)
		ret = cks_store_commit(&s->store, why);
	if (ret < 0 && !s->goes_on) {
		*gone = undo(s) < 0;
		kill(s->job->pid, *gone ? SIGKILL : SIGCONT);
	} else if (ret == 0 && !s->job->keep) {
		kill(s->job->pid, SIGKILL); /* it is in the files now, as a whole */
	}
	return ret;
}

/* Whether a filter of system calls restricts the process. */
static bool is_filtered(pid_t pid)
{
	char path[64], line[128];
	bool filtered = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && !filtered && fgets(line, sizeof(line), f))
		filtered = strcmp(line, "Seccomp:\t2\n") == 0;
	if (f)
		fclose(f);
	return filtered;
}

/* The kernel shows filters to root only. */
static int check_filter(pid_t pid, struct cks_why *why)
{
	if (geteuid() == 0 || !is_filtered(pid))
		return 0;
	return cks_why_set(why, EPERM,
			   "CRIU cannot read the filter of system calls of worker %d, because the "
			   "server does not run as root: start it with --sandbox off",
			   (int)pid);
}

int cks_checkpoint_describe(const struct cks_checkpoint_job *job, struct cks_manifest *manifest,
			    struct cks_why *why)
{
	int ret = job->checked ? 0 : cks_criu_check(job->criu, why);

	if (ret == 0)
		ret = check_filter(job->pid, why);
	if (ret == 0)
		ret = cks_external_fds_find(job->pid, job->control, job->log, &manifest->outside,
					    why);
	return ret < 0 ? ret : list_threads(job->pid, manifest, why);
}

/* An earlier checkpoint of the session, whose memory may be in use again. */
static void open_earlier(struct saving *s)
{
	struct cks_why why;

	s->earlier_dir = cks_checkpoint_open(s->job->directory, &s->earlier, &why);
	if (s->earlier_dir < 0)
		return;
	if (s->manifest->id[0] && strcmp(s->earlier.id, s->manifest->id) == 0)
		return;
	close(s->earlier_dir);
	s->earlier_dir = -1;
	cks_manifest_free(&s->earlier);
}

static void close_earlier(struct saving *s)
{
	if (s->earlier_dir < 0)
		return;
	close(s->earlier_dir);
	cks_manifest_free(&s->earlier);
}

int cks_checkpoint_save(const struct cks_checkpoint_job *job, struct cks_manifest *manifest,
			bool *gone, struct cks_why *why)
{
	struct saving *s = calloc(1, sizeof(*s));
	int ret = s ? cks_checkpoint_describe(job, manifest, why) : cks_why_set(why, ENOMEM, "%m");

	*gone = false;
	if (ret < 0)
		goto out;
	s->job = job;
	s->manifest = manifest;
	umask(077); /* CRIU writes a process's memory */
	open_earlier(s);
	ret = cks_store_begin(job->directory, job->replace || s->earlier_dir >= 0, &s->store, why);
	if (ret == 0 && job->began)
		job->began(s->store.part);
	if (ret == 0) {
		ret = save_worker(s, gone, why);
		cks_store_abandon(&s->store);
	}
	close_earlier(s);
out:
	free(s);
	return ret;
}

/* --- after a process that was killed */

static void signal_worker(const struct cks_checkpoint_job *job, int number)
{
	if (job->pid > 0)
		kill(job->pid, number);
}

/* Only its last step gives the folder its name. */
static int find_complete(const struct cks_checkpoint_job *job, struct cks_manifest *m,
			 struct cks_why *why)
{
	int dir = cks_checkpoint_open(job->directory, m, why);

	if (dir < 0)
		return dir;
	close(dir);
	if (job->pid == 0 || m->pid == ck_pid_namespace_inner(job->pid, job->pid))
		return 0;
	cks_manifest_free(m);
	return cks_why_set(why, ESTALE, "%s: it is of another session", job->directory);
}

/* Fill memory that the worker has dropped. */
static int fill_dropped(const struct cks_checkpoint_job *job, const char *folder, bool filed,
			struct cks_manifest *m, struct cks_why *why)
{
	uint64_t state = cks_worker_memory_state(job->table);
	int ret = CK_POOL_COMPLETE;
	int dir;

	if (filed && job->pid > 0)
		ret = cks_worker_memory_wait(job->pid, state, true);
	if (ret == CK_POOL_COMPLETE)
		return 0;
	if (ret < 0)
		return cks_why_set(why, -ret, "worker %d: dropping memory: %m", (int)job->pid);
	dir = cks_checkpoint_open(folder, m, why);
	if (dir < 0)
		return dir;
	ret = cks_memory_file_fill(&m->file, job->pid, dir, why);
	close(dir);
	cks_manifest_free(m);
	return ret;
}

int cks_checkpoint_recover(const struct cks_checkpoint_job *job, const char *folder, bool filed,
			   struct cks_manifest *manifest, bool *gone, struct cks_why *why)
{
	int ret;

	*gone = false;
	if (access(folder, F_OK) < 0 && find_complete(job, manifest, why) == 0) {
		if (!job->keep)
			signal_worker(job, SIGKILL);
		return 0;
	}
	signal_worker(job, SIGCONT); /* CRIU has stopped it, perhaps before it drops memory */
	/* the supervisor returns memory that left with its pool */
	ret = job->keep || job->pooled ? 0 : fill_dropped(job, folder, filed, manifest, why);
	*gone = ret < 0;
	if (*gone)
		signal_worker(job, SIGKILL);
	else
		ret = cks_why_set(why, ECANCELED, "the process that wrote it has ended too early");
	cks_store_remove(folder);
	return ret;
}

/* --- restoring */

int cks_checkpoint_open(const char *directory, struct cks_manifest *manifest, struct cks_why *why)
{
	int dir = cks_store_open(directory, why);
	int ret = dir < 0 ? dir : cks_manifest_read(dir, manifest, why);

	if (ret < 0 && dir >= 0)
		close(dir);
	return ret < 0 ? ret : dir;
}

bool cks_checkpoint_ids_free(const struct cks_manifest *m)
{
	char path[32];

	for (size_t i = 0; i < m->thread_count; i++) {
		snprintf(path, sizeof(path), "/proc/%d", (int)m->threads[i]);
		if (access(path, F_OK) == 0)
			return false;
	}
	return true;
}

static int unpack_all(int from, const char *images, const struct cks_manifest *m,
		      struct cks_why *why)
{
	int to = open(images, O_RDONLY | O_DIRECTORY | O_CLOEXEC), ret = 0;

	if (to < 0)
		return cks_why_set(why, errno, "%s: %m", images);
	for (size_t i = 0; i < m->image_count && ret == 0; i++)
		ret = cks_unpack_file(from, to, &m->images[i], why);
	close(to);
	return ret;
}

int cks_checkpoint_restore(const struct cks_checkpoint_job *job, int dir,
			   const struct cks_manifest *manifest,
			   const int inherited[CK_EXTERNAL_FDS_ROLES], pid_t *pid,
			   struct cks_why *why)
{
	char images[CK_CHECKPOINT_PATH], log[CK_CHECKPOINT_PATH + 16], kept[CK_CHECKPOINT_PATH];
	struct cks_criu criu = {.program = job->criu,
				.images = images,
				.log = log,
				.kept = kept,
				.outside = &manifest->outside};
	int ret = job->checked ? 0 : cks_criu_check(job->criu, why);

	if (ret == 0)
		ret = cks_memory_parts_check(&manifest->file.parts, dir, false, why);
	if (ret < 0)
		return ret;
	umask(077);
	snprintf(kept, sizeof(kept), "%s/restore.log", job->directory);
	snprintf(images, sizeof(images), "%s/restore-XXXXXX", job->directory);
	if (!mkdtemp(images))
		return cks_why_set(why, errno, "%s: %m", images);
	snprintf(log, sizeof(log), "%s/restore.log", images); /* other copies have their own */
	ret = unpack_all(dir, images, manifest, why);
	if (ret == 0)
		ret = cks_socket_names_free(images, why);
	if (ret == 0)
		ret = cks_criu_restore(&criu, inherited, pid, why);
	rename(log, kept);
	if (ret == 0 && !job->shares &&
	    (ret = cks_memory_file_fill(&manifest->file, *pid, dir, why)) < 0)
		kill(*pid, SIGKILL); /* it waits for its memory, and has called nothing */
	cks_store_remove(images);
	return ret;
}
