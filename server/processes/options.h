/*
 * server/processes/options.h - the command line of cricket-rpc-server.
 */
#ifndef CK_SERVER_PROCESSES_OPTIONS_H
#define CK_SERVER_PROCESSES_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "server/processes/limits.h"

#define CK_LISTEN_MAX 16
#define CK_WARM_MAX 64 /* spare workers with contexts; as many without */

struct cks_options {
	const char *listen[CK_LISTEN_MAX];
	size_t listen_count;
	const char *unix_path; /* NULL: the first usual place that works */
	bool no_unix;
	const char *driver;	/* auto, cuda, emu or a path */
	const char *token_file; /* NULL: none */
	const char *cache_dir;	/* NULL: the usual places */
	const char *cache_size; /* as CRICKET_CACHE_SIZE */
	const char *m3_path;	/* the memory broker's socket; NULL: beside the server's own */
	const char *pid_file;	/* NULL: none */
	unsigned int max_sessions;
	struct cks_limits limits;
	int warm, standby;	  /* numbers of spare workers; -1: one with a real driver */
	const char *warm_devices; /* devices whose contexts they hold: "0,1", or "none" */
};

/* 0: continue; 1: done, exit successfully (--help); -EINVAL: invalid, printed on stderr. */
int cks_options_parse(int argc, char **argv, struct cks_options *options);

#endif
