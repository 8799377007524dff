/*
 * emu/ptx/run/team.h - the threads that share a grid.
 */
#ifndef CK_EMU_PTX_RUN_TEAM_H
#define CK_EMU_PTX_RUN_TEAM_H

#include <pthread.h>
#include <stdatomic.h>

#include "emu/ptx/run/grid.h"

#define CK_PTX_MAX_HELPERS 255
#define CK_PTX_MAX_RESIDENT 4096 /* blocks of a cooperative grid */

struct ck_ptx_team {
	const struct ck_ptx_run *model; /* each thread copies it; none writes to it */
	_Atomic uint64_t next;		/* cluster to start */
	uint64_t clusters;
	uint64_t slots;		       /* of them that a thread has resident from the start */
	_Atomic uint64_t instructions; /* of all lanes, where they are counted */
	_Atomic int result;	       /* the first error; 0 as long as there is none */
	uint64_t began;
	pthread_t caller, helpers[CK_PTX_MAX_HELPERS];
	unsigned int helpers_wanted, helper_count; /* the caller's alone */
};

/* Run all @clusters of the grid that @run describes: 0 or the error that ends it. */
int ck_ptx_team_run(const struct ck_ptx_run *run, uint64_t clusters, bool cooperative);

#endif
