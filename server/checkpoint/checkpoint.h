/*
 * server/checkpoint/checkpoint.h - a worker as files, and the worker again.
 *
 * The folder of a checkpoint: manifest.json (manifest.h), CRIU's files, each compressed (NAME.zst),
 * and its log (dump.log; restore.log after a restore). Both functions wait for CRIU: they are for
 * processes of their own, not for the supervisor.
 */
#ifndef CK_SERVER_CHECKPOINT_CHECKPOINT_H
#define CK_SERVER_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <sys/types.h>

#include "server/checkpoint/external_fds.h"
#include "server/checkpoint/failure_text.h"
#include "server/checkpoint/manifest.h"

struct cks_checkpoint_job {
	const char *criu;      /* program, as of --criu, */
	bool checked;	       /* which has been checked before */
	const char *directory; /* of the checkpoint */
	pid_t pid;	       /* the worker; it is parked, and holds nothing of the GPU */
	int control, log;      /* cks_external_fds_find */
	bool keep;	       /* let the worker go on */
	int supervisor;	       /* a connection to it, which CRIU has open until it ends; 0: none */
	bool replace;	       /* whatever is in the folder; else the same session's only */
	uint64_t table;	       /* of the worker's own memory (worker_memory.h); 0: there is none */
	/* the file of that memory, which the worker leaves; -1: there is none */
	int pool;
	bool pooled; /* for cks_checkpoint_recover(): there was such a file */
	bool shares; /* a restored worker gets its memory with a file (cks_memory_file_load) */
	/* Called when files are written into @folder: cks_checkpoint_recover() needs it. */
	void (*began)(const char *folder);
	/* called when memory of its own is in its file: the worker is to drop those pages. If it
	 * does not, CRIU writes them too. */
	void (*filed)(void);
	/* with @keep: called when the worker goes on, before its images are compressed */
	void (*goes_on)(void);
};

/* After a dump: 0, or -ECANCELED if the supervisor has ended. CRIU cannot restore a worker without
 * one: its control socket is not connected. */
int cks_checkpoint_supervised(const struct cks_checkpoint_job *job, struct cks_why *why);

/* Before a dump: check CRIU, and put what it reports about the worker's process into @manifest. The
 * caller frees it. */
int cks_checkpoint_describe(const struct cks_checkpoint_job *job, struct cks_manifest *manifest,
			    struct cks_why *why);

/* Memory of the worker, @file, is to be seen by CRIU no more: have it dropped; and from its pool
 * back, unless it was not. 0 or -errno. */
int cks_checkpoint_drop(const struct cks_checkpoint_job *job, const struct cks_memory_file *file,
			struct cks_why *why);
int cks_checkpoint_give_back(const struct cks_checkpoint_job *job,
			     const struct cks_memory_file *file);

/*
 * Write the worker into a new folder, which replaces an earlier checkpoint of the same session when
 * it is complete, and has hard links to memory that has not changed since. @manifest tells release,
 * session, application and GPU, and gets the rest; the caller frees it. Its file lists memory that
 * CRIU is not to write (memory_file.h). After an error the worker is as before, except if memory
 * that it has dropped could not be filled again: then *gone is set.
 */
int cks_checkpoint_save(const struct cks_checkpoint_job *job, struct cks_manifest *manifest,
			bool *gone, struct cks_why *why);

/*
 * The process that wrote or sent the worker has ended too early, and so has its CRIU: undo what it
 * has done in @folder. Without job->pid the worker has ended too. @filed: it has asked the worker
 * to drop memory. 0: the checkpoint was complete, and now the worker has ended; *manifest is the
 * caller's to free. Else the worker is as before, unless *gone. May be repeated.
 */
int cks_checkpoint_recover(const struct cks_checkpoint_job *job, const char *folder, bool filed,
			   struct cks_manifest *manifest, bool *gone, struct cks_why *why);

/* Read and check the manifest of a checkpoint; returns its folder's descriptor, or -errno. */
int cks_checkpoint_open(const char *directory, struct cks_manifest *manifest, struct cks_why *why);

/* The worker gets its process and thread ids again. Are they all free here? Else it needs a
 * namespace of its own (pid_namespace.h). */
bool cks_checkpoint_ids_free(const struct cks_manifest *manifest);

/*
 * Make the worker of a checkpoint again, as a child of this process. @dir: of cks_checkpoint_open.
 * @inherited: the descriptor for each role, none below 3.
 */
int cks_checkpoint_restore(const struct cks_checkpoint_job *job, int dir,
			   const struct cks_manifest *manifest,
			   const int inherited[CK_EXTERNAL_FDS_ROLES], pid_t *pid,
			   struct cks_why *why);

#endif
