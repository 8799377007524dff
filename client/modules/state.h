/*
 * client/modules/state.h - what the files of client/modules keep of a session.
 */
#ifndef CK_CLIENT_MODULES_STATE_H
#define CK_CLIENT_MODULES_STATE_H

#include "client/wire/client.h"

struct ck_modules {
	struct ck_mutex tables_lock;	/* functions and variables of modules, modules of libraries */
	struct ck_mutex announce_lock;	/* function.c: which functions the server knows */
	struct ck_mutex upload_lock;	/* code.c: an image that the server holds has been sent whole */
	struct ck_mutex managed_lock;	/* module.c: __managed__ variables whose pages are tracked */
};

#endif
