/*
 * client/link/locks.h - every lock of the client, outermost first: its rank (util/lock.h), and the
 * data that it guards.
 *
 * A lock that is held while a message is sent, or while a call waits for its reply, comes before
 * CK_RANK_COMMAND. tools/check-state compares this list with the locks that the client makes.
 */
#ifndef CK_CLIENT_LINK_LOCKS_H
#define CK_CLIENT_LINK_LOCKS_H

#include "util/lock.h"

/* Rank 1 is that of a lock of libcuda/locks.h. */
enum ck_rank {
	CK_RANK_NVML = 2,	/* whether NVML has been started */
	CK_RANK_CUPTI_FLUSH,	/* fetching a profile's records, and the program's buffer */
	CK_RANK_PRIMARY,	/* primary contexts: held over the end of one, which runs hooks */
	CK_RANK_MIRROR_LAUNCH,	/* the launch whose bytes the mirrors hold */
	CK_RANK_SPREAD_ONE,	/* the one large copy whose parts go over several lanes */
	CK_RANK_MODULE_MANAGED, /* __managed__ variables of modules */
	CK_RANK_MODULES,	/* functions and variables of modules */
	CK_RANK_STAGES,		/* windows that stage copies */
	CK_RANK_PROMISES,	/* chunks that the server holds in memory, and uploads of them */
	CK_RANK_IPC,		/* memory of other sessions that is open */
	CK_RANK_ARENA,		/* device memory that the client lays out */
	CK_RANK_RESERVATIONS,	/* parts of the arena of reserved addresses */
	CK_RANK_ADOPTIONS,	/* registered memory whose pages are exchanged */
	CK_RANK_HOST_MAP,	/* mapping device memory behind pinned memory */
	CK_RANK_PAGES,		/* managed pages: a fault of any thread may wait for it */
	CK_RANK_WINDOW,		/* the window: its pages, device memory behind them */
	CK_RANK_PINNED,		/* the file of pinned memory and its addresses */
	CK_RANK_NCCL_OPEN,	/* asking a server for its NCCL */
	CK_RANK_SERVERS,	/* connecting to the servers, one after the other */
	CK_RANK_FAULT,		/* starting the process's fault handler */
	CK_RANK_SET_UP,		/* connecting: the state, the addresses, the first reply */
	CK_RANK_STATUS,		/* status: opening the file, numbers of watches */
	CK_RANK_STARTING,	/* deliveries: starting their threads */
	CK_RANK_SPREAD,		/* the parts of that copy */
	CK_RANK_UPLOAD,		/* sending images */
	CK_RANK_ANNOUNCE,	/* announcing functions to the server */
	CK_RANK_GRAPHS,		/* lists of nodes and graphs */
	CK_RANK_DEVICES,	/* building the device table */
	CK_RANK_CALLBACKS,	/* functions that the server may call, and their threads */
	CK_RANK_PRINTING,	/* the last launch of a kernel that can print */
	CK_RANK_BESIDE,		/* lanes of one-way uploads, and their order */
	CK_RANK_HOST_POOLS,	/* pools in the host: freed pieces, the pools of places */
	CK_RANK_COMMAND,	/* the command stream */
	CK_RANK_DELIVERIES,	/* outstanding copies, ranks that came early */
	CK_RANK_LOSS,		/* whether the loss of the session is reported */
	CK_RANK_IMAGES = CK_RANK_LEAF,	      /* images that the server holds */
	CK_RANK_RECALL = CK_RANK_LEAF,	      /* answers that the server recalls */
	CK_RANK_NAMES = CK_RANK_LEAF,	      /* the session's id and key */
	CK_RANK_LANES = CK_RANK_LEAF,	      /* the pool and the list of lanes */
	CK_RANK_PACKING = CK_RANK_LEAF,	      /* packers that no copy uses */
	CK_RANK_ALIVE = CK_RANK_LEAF,	      /* the question whether the server responds */
	CK_RANK_NAMED = CK_RANK_LEAF,	      /* objects by ids that the server picked */
	CK_RANK_SLOTS = CK_RANK_LEAF,	      /* the process's slots of handles */
	CK_RANK_USAGE = CK_RANK_LEAF,	      /* usage counts of contexts */
	CK_RANK_CAPTURES = CK_RANK_LEAF,      /* active captures */
	CK_RANK_ELAPSED = CK_RANK_LEAF,	      /* times between events */
	CK_RANK_ALLOCATIONS = CK_RANK_LEAF,   /* the table of known memory */
	CK_RANK_TEXTURES = CK_RANK_LEAF,      /* texture and surface objects */
	CK_RANK_TENSOR_MAPS = CK_RANK_LEAF,   /* tensor descriptors that were encoded before */
	CK_RANK_SHADOWS = CK_RANK_LEAF,	      /* shadowed memory: the server's bytes */
	CK_RANK_BUSY = CK_RANK_LEAF,	      /* memory that copies between servers use */
	CK_RANK_BRIDGES = CK_RANK_LEAF,	      /* connections between servers, for copies */
	CK_RANK_MIRRORS = CK_RANK_LEAF,	      /* mirrors of copies in graphs */
	CK_RANK_NOTIFICATIONS = CK_RANK_LEAF, /* asynchronous notifications */
	CK_RANK_NCCL = CK_RANK_LEAF,	      /* communicators, outcomes that are pending */
	CK_RANK_CUPTI = CK_RANK_LEAF,	      /* records of the program's calls */
	CK_RANK_CLAIMED = CK_RANK_LEAF,	      /* the process's claimed addresses */
};

#endif
