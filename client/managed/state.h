/*
 * client/managed/state.h - the session state of client/managed. The fault handler belongs to the
 * process, so fault.c keeps its own state.
 */
#ifndef CK_CLIENT_MANAGED_STATE_H
#define CK_CLIENT_MANAGED_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/link/client.h"
#include "util/map.h"
#include "util/process/private_fds.h"

struct ck_ranges;
struct ckc_page_allocator;

struct ckc_pages { /* pages.c, managed.c, page_access.c, variable.c */
	struct ck_mutex lock;
	struct ck_ranges *table;       /* of struct ckc_managed; NULL: nothing tracked yet */
	_Atomic unsigned int active;   /* ranges with pages valid here */
	_Atomic unsigned int attached; /* ranges attached to a stream or to the host */
	_Atomic bool doubtful;	       /* work that may use attached ranges may be outstanding */
	bool told;		       /* the loss of memory was logged */
};

struct ck_window { /* window.c */
	struct ck_mutex lock;
	uint64_t lo, hi;  /* both 0 until it is open; read without the lock */
	uint64_t shadows; /* from here on, addresses of shadowed memory; hi: none */
	bool tried;
	char *alias;
	struct ck_private_fd file;
	struct ckc_page_allocator *space;
	struct ckc_page_allocator *shadow_space; /* or NULL */
};

#define CK_VARIABLE_PLACES 256

/* variable.c: addresses of variables, for handlers and system calls, which cannot take a lock. */
struct ckc_managed_variables {
	_Atomic unsigned int ranges; /* outside the window */
	struct {
		_Atomic uint64_t lo, hi;
	} places[CK_VARIABLE_PLACES];
};

struct ckc_shadows { /* shadow.c */
	struct ck_mutex lock;
	struct ck_map *table; /* of struct ckc_shadow by number; NULL: none yet */
	uint64_t numbers;
	size_t total; /* bytes */
};

struct ckc_managed_state {
	struct ckc_pages pages;
	struct ck_window window;
	struct ckc_shadows shadows;
	struct ckc_managed_variables variables;
};

/* NULL until there is a session. For signal handlers and system calls of the program. */
static inline struct ckc_managed_state *ckc_managed_if_any(void)
{
	struct ckc_client *c = __atomic_load_n(&ckc_client_default, __ATOMIC_ACQUIRE);

	return c ? c->managed : NULL;
}

#endif
