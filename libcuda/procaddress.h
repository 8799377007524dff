/*
 * libcuda/procaddress.h - the names behind cuGetProcAddress.
 */
#ifndef CK_LIBCUDA_PROCADDRESS_H
#define CK_LIBCUDA_PROCADDRESS_H

#include <stdbool.h>

#include "cuda/types.h"

/* One variant of a call. */
struct ck_entry {
	const char *name; /* without _v2 and _ptsz: "cuMemAlloc" */
	int since;	  /* CUDA version that brought this variant: 3020 */
	bool per_thread;  /* stream 0 means the thread's own stream */
	void *function;
	void *counted; /* the same for CRICKET_STATS; NULL: refused, not counted */
};

/* Made from rpc/driver.api: sorted by name, then newest first. */
extern const struct ck_entry ck_entries[];
extern const unsigned int ck_entry_count;

#endif
