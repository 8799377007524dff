/*
 * client/managed/rebind.h - the functions of client/managed/interpose.c for programs that neither
 * preload nor link the client: those that open it late, as the CUDA runtime does if it finds it by
 * LD_LIBRARY_PATH.
 */
#ifndef CK_CLIENT_MANAGED_REBIND_H
#define CK_CLIENT_MANAGED_REBIND_H

#include <stddef.h>

/* A function of interpose.c. */
struct ckc_interposed {
	const char *name;
	void *own;
};
extern const struct ckc_interposed ckc_interposed[];
extern const size_t ckc_interposed_count;

/* From now on, the program's calls must reach our functions. A line tells if they cannot. */
void ckc_rebind_begin(void);
/* The same for libraries that were loaded meanwhile. Nearly free if there are none, or if the
 * program finds our functions by itself. */
void ckc_rebind(void);

#endif
