/*
 * client/modules/state.h - what the files of client/modules keep of a session.
 */
#ifndef CK_CLIENT_MODULES_STATE_H
#define CK_CLIENT_MODULES_STATE_H

#include "client/wire/client.h"

struct ck_modules {
	struct ck_mutex tables_lock;	/* functions, variables, modules of libraries */
	struct ck_mutex announce_lock;	/* function.c: which functions the server knows */
	struct ck_mutex upload_lock;	/* code.c: images that are sent */
	struct ck_mutex managed_lock;	/* module.c: __managed__ variables that are tracked */
};

#endif
