/*
 * client/copy/state.h - the session state of client/copy.
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
	struct ck_context *ctx;	/* NULL: the slot has no window */
	uint64_t address;
	uint64_t stream, used;	/* of its last copies: stream id, and number of the last command */
};

struct ck_stages {	/* stage.c */
	struct ck_mutex lock;
	struct ck_stage windows[CK_STAGES];
	bool refused;		/* windows cannot be made: do not retry */
	_Atomic size_t copied;
};

struct ck_mirrors {	/* mirror.c */
	struct ck_mutex launch_lock;	/* taken first: mirrors hold the bytes of one launch */
	struct ck_mutex lock;
	struct ck_map *map;
	_Atomic size_t count;
	_Atomic bool functions;		/* some graph may contain host functions */
	uint64_t exec, *running;	/* the last launch, and its mirrors */
	size_t running_count;		/* their number */
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
