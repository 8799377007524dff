/*
 * server/checkpoint/criu.h - runs CRIU, which writes a process into files and makes it again from
 * them.
 *
 * The only place that knows CRIU's options.
 */
#ifndef CK_SERVER_CHECKPOINT_CRIU_H
#define CK_SERVER_CHECKPOINT_CRIU_H

#include <stdbool.h>
#include <sys/types.h>

#include "server/checkpoint/external_fds.h"
#include "server/checkpoint/failure_text.h"

struct cks_criu {
	const char *program; /* looked for in PATH unless it is a path */
	const char *images;  /* folder of CRIU's files */
	/* Path. CRIU overwrites a file there, and follows links, so it is in a folder of the
	 * server's user alone. */
	const char *log;
	const char *kept; /* where the caller moves it if CRIU fails; NULL: nowhere */
	int held;	  /* a dump has it open until CRIU ends; 0: nothing */
	const struct cks_external_fds *outside;
};

/* Whether @program is there and at least the release that dumps workers. */
int cks_criu_check(const char *program, struct cks_why *why);

/* A dumped process afterwards. It never ends with CRIU, because its caller may be killed before the
 * files are complete. */
enum cks_criu_after { CK_CRIU_GOES_ON, CK_CRIU_STOPS /* SIGCONT continues it */ };

#define CK_CRIU_FILES (-1)

/*
 * Write process @pid into files; its memory to the page server at the other end of socket @pages,
 * unless that is CK_CRIU_FILES. A process that cannot be dumped continues in any case.
 */
int cks_criu_dump(const struct cks_criu *criu, pid_t pid, enum cks_criu_after after, int pages,
		  struct cks_why *why);

/* The page server of one dump: write the memory that comes over socket @pages into files. Needs no
 * criu->outside. The socket is free for other use afterwards. */
int cks_criu_take_pages(const struct cks_criu *criu, int pages, struct cks_why *why);

/*
 * Make the process again, as a child of the caller, with its old process and thread ids.
 * @inherited: the descriptor that each role gets. -EEXIST: one of these ids is in use.
 */
int cks_criu_restore(const struct cks_criu *criu, const int inherited[CK_EXTERNAL_FDS_ROLES],
		     pid_t *pid, struct cks_why *why);

#endif
