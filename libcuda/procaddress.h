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

/*
 * The variant of @name that a program built for CUDA @version means: the newest that is not
 * newer than @version, in its per-thread form where @per_thread asks for it and there is one.
 * NULL and the reason in *@status when there is none.
 */
const struct ck_entry *ck_entry_find(const struct ck_entry *entries, unsigned int count,
				     const char *name, int version, bool per_thread,
				     CUdriverProcAddressQueryResult *status);

#endif
