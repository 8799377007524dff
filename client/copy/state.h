/*
 * client/copy/state.h - what the files of client/copy keep of a session.
 */
#ifndef CK_CLIENT_COPY_STATE_H
#define CK_CLIENT_COPY_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/wire/client.h"

struct ck_map;

#define CK_STAGES 8

struct ck_stage {
	bool taken;
	struct ck_context *ctx;	/* NULL: there is no window here */
	uint64_t address;
	uint64_t stream, used;	/* of the last copies: id, and number of the last command */
};

struct ck_stages {	/* stage.c */
	struct ck_mutex lock;
	struct ck_stage windows[CK_STAGES];
	bool refused;		/* none can be made: it is not tried again */
	_Atomic size_t copied;
};

struct ck_mirrors {	/* mirror.c */
	struct ck_mutex launch_lock;	/* taken first: mirrors hold one launch's bytes */
	struct ck_mutex lock;
	struct ck_map *map;
	_Atomic size_t count;
	_Atomic bool functions;		/* some graph may have functions in it */
	uint64_t exec, *running;	/* launched last, and its mirrors, */
	size_t running_count;		/* so many */
};

/* Since all work of a context was done, there have been only small uploads in it, up to this command. */
struct ck_uploaded {
	_Atomic(const struct ck_context *) context; /* written before the number, read after it */
	_Atomic uint64_t command;
};

struct ck_copying {
	struct ck_stages stages;
	struct ck_mirrors mirrors;
	struct ck_uploaded uploaded;
};

#endif
