/*
 * client/modules/state.h - the session state of client/modules.
 */
#ifndef CK_CLIENT_MODULES_STATE_H
#define CK_CLIENT_MODULES_STATE_H

#include "client/link/client.h"

struct ckc_printing { /* printing.c */
	struct ck_mutex lock;
	_Atomic bool possible; /* code that can print has been loaded */
	/* the last such launch: number of a command not before it, and where */
	uint64_t number, stream;
	struct ckc_context *context;
	bool scattered; /* others, in other streams, have not been waited for */
};

struct ckc_recall { /* answer_store.c */
	struct ck_mutex lock;
	bool indexed;
	struct ck_map *answers; /* by digest: the pair, in the reply to hello */
};

struct ckc_modules {
	struct ck_mutex tables_lock;   /* functions, variables, modules of libraries */
	struct ck_mutex announce_lock; /* function.c: functions announced to the server */
	struct ck_mutex upload_lock;   /* code.c: sending images */
	struct ck_mutex managed_lock;  /* variable.c: tracking of __managed__ variables */
	struct ckc_printing printing;
	struct ckc_recall recall;
};

#endif
