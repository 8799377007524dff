/*
 * client/copy/mirror_part.h - one mirror, for mirror.c and mirror_launch.c alone.
 */
#ifndef CK_CLIENT_COPY_MIRROR_PART_H
#define CK_CLIENT_COPY_MIRROR_PART_H

#include "client/copy/state.h"
#include "client/memory/box.h"
#include "cuda/copy_side.h"

struct ckc_mirror {
	uint64_t id;
	bool source; /* the copy reads it */
	/* another copy may read what this one writes, or before it does */
	bool read;
	struct ckc_box box;	  /* in the memory of the application */
	struct ck_copy_side side; /* as the application described it */
};

static inline struct ckc_mirrors *ckc_mirrors_current(void)
{
	return &ckc_client_current()->copying->mirrors;
}

/* Copy the mirror @id; false: there is none. */
bool ckc_mirror_find(uint64_t id, struct ckc_mirror *out);

#endif
