/*
 * loader/stubs/stub.h - the macros of a stub library, in the upper half.
 */
#ifndef CK_LOADER_STUBS_STUB_H
#define CK_LOADER_STUBS_STUB_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/lhinfo.h"

/* The stub's description: generated. */
extern const char lh_stub_half[];    /* the half that it stands for: "mpi" */
extern const char *const lh_names[]; /* its functions, in the order of the table */
extern const unsigned long lh_hash;

/* The return value of a function that cannot be called; the stub's own. */
long lh_stub_error(const char *name);

/* NULL: no loader, or it has no such half. */
struct lhinfo *lh_info(void);
extern __attribute__((visibility("hidden"))) struct lh_half *lh_half_at;

/* A function that the lower half may call in place of target(..., user); NULL: there is none
 * left. */
void *lh_callback(lh_target target, void *user);

/* The same, and it may be called from a thread that the lower half made. */
void *lh_callback_any_thread(lh_target target, void *user);

/* The function behind an address that lh_callback gave; false: it is none. */
bool lh_callback_behind(const void *address, lh_target *target, void **user);

#endif
