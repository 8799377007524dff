/*
 * libcuda/locks.h - every lock of libcuda/: its rank (util/lock.h), and the data that it guards.
 * Two are outside of all locks of the client, or of the emulated GPU; the others are leaves.
 * tools/check-state compares this list with the locks that libcuda/ makes.
 */
#ifndef CK_LIBCUDA_LOCKS_H
#define CK_LIBCUDA_LOCKS_H

#include "util/lock.h"

enum ck_libcuda_rank {
	CK_RANK_TPC_MAPS = 1, /* maps of devices' TPCs: held while the driver is asked for one */
	CK_RANK_EXPORT_FACTS = 1, /* facts of the integrity answer: held while they are asked for */
	CK_RANK_ADVICE = CK_RANK_LEAF,	    /* advice on stretches of managed memory */
	CK_RANK_COREDUMP = CK_RANK_LEAF,    /* settings of core dumps */
	CK_RANK_LOCAL = CK_RANK_LEAF,	    /* context-local storage */
	CK_RANK_LOGS = CK_RANK_LEAF,	    /* lines of the log, and callbacks for them */
	CK_RANK_EXPORT_TOLD = CK_RANK_LEAF, /* ids of export tables that were reported */
	CK_RANK_NVML_SETS = CK_RANK_LEAF,   /* the process's sets of NVML's events */
	CK_RANK_OLD_LAUNCH = CK_RANK_LEAF, /* shapes and parameters of launches older than CUDA 4 */
};

#endif
