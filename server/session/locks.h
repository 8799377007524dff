/*
 * server/session/locks.h - every lock of the server, outermost first: its rank (util/lock.h), and
 * the data that it guards. tools/check-state compares this list with the locks that the server
 * makes.
 */
#ifndef CK_SERVER_SESSION_LOCKS_H
#define CK_SERVER_SESSION_LOCKS_H

#include "util/lock.h"

enum ck_rank {
	CK_RANK_PARK = 1,    /* the session's way off the GPU, or back */
	CK_RANK_CONTEXTS,    /* ends of contexts, against waits for their work */
	CK_RANK_WARM,	     /* contexts that are held ready; calls of the driver */
	CK_RANK_MAPPINGS,    /* mapped memory: the driver's view and the tables' */
	CK_RANK_LEASES,	     /* leases of device memory: units and the devices that use them */
	CK_RANK_CAPTURES,    /* which streams are captured, against looks at them */
	CK_RANK_SHARES,	     /* memory that is left with the broker or may not be shared */
	CK_RANK_M3_NEWS,     /* subscriptions to the broker's news */
	CK_RANK_LINK,	     /* one link, except its count of users */
	CK_RANK_STAGING_OWN, /* the list of rings that threads own */
	CK_RANK_STAGING,     /* a ring, held from taking it until its release */
	CK_RANK_PINNED,	     /* pinned memory of the client; after the lock of moves */
	CK_RANK_MIRRORS,     /* mirrors of host memory in graphs, and who owns them */
	CK_RANK_CALLBACKS,   /* host functions that wait for the client */
	CK_RANK_STATUS,	     /* watches of events and streams */
	CK_RANK_TURN,	     /* the session's turn on the GPU */
	CK_RANK_SHADOWS,     /* shadowed memory, and the client's bytes of it */
	CK_RANK_DELIVERIES,  /* parts of copies that go to the client */
	CK_RANK_NCCL, /* communicators, batches in threads; NCCL answers questions meanwhile */
	CK_RANK_PROFILE_KINDS, /* kinds of records; CUPTI may hand over a buffer meanwhile */
	CK_RANK_DIRECT,	       /* the list of bridges to workers of other servers */
	CK_RANK_M3_BROKER,     /* the connection to the broker: one question at a time */
	CK_RANK_METER,	       /* the session's part of its identity's quota */
	CK_RANK_PROGRAM,       /* the process of the program, which the worker watches */
	CK_RANK_SESSION_TLS,   /* handshakes with the session's secret that are not finished */
	CK_RANK_DIRECT_BRIDGE = CK_RANK_LEAF,  /* one of them, and the copy that uses it */
	CK_RANK_MEMORY = CK_RANK_LEAF,	       /* device memory of the session */
	CK_RANK_WORK_WAIT = CK_RANK_LEAF,      /* a wait for work that has a limit of time */
	CK_RANK_HOST_POOL = CK_RANK_LEAF,      /* host memory for it: which pieces are made */
	CK_RANK_CREW = CK_RANK_LEAF,	       /* jobs of a crew of threads: which are done */
	CK_RANK_LANES = CK_RANK_LEAF,	       /* tasks of connections of a move */
	CK_RANK_LINK_USERS = CK_RANK_LEAF,     /* counts of users of all links */
	CK_RANK_CACHE = CK_RANK_LEAF,	       /* the module cache */
	CK_RANK_STORE = CK_RANK_LEAF,	       /* the folder of kept uploads, and its size */
	CK_RANK_WRITER = CK_RANK_LEAF,	       /* chunks that wait to be written there */
	CK_RANK_HELD = CK_RANK_LEAF,	       /* chunks of it in memory, and those to read next */
	CK_RANK_START_LIST = CK_RANK_LEAF,     /* its chunks that the program has taken */
	CK_RANK_HOLDS = CK_RANK_LEAF,	       /* streams that wait for another server */
	CK_RANK_LAUNCH_PACE = CK_RANK_LEAF,    /* marks behind launches; calls of the driver */
	CK_RANK_GATE = CK_RANK_LEAF,	       /* threads inside of the gate, or in front of it */
	CK_RANK_PROGRESS = CK_RANK_LEAF,       /* with its condition: commands that are executed */
	CK_RANK_OUTPUT = CK_RANK_LEAF,	       /* output of kernels */
	CK_RANK_TEXTURES = CK_RANK_LEAF,       /* texture and surface objects */
	CK_RANK_GREEN = CK_RANK_LEAF,	       /* resources that have been given out */
	CK_RANK_NOTIFICATIONS = CK_RANK_LEAF,  /* asynchronous notifications */
	CK_RANK_FAULTS = CK_RANK_LEAF,	       /* the driver's report of a kernel's fault */
	CK_RANK_NVML = CK_RANK_LEAF,	       /* NVML's handles and their numbers */
	CK_RANK_PROFILE = CK_RANK_LEAF,	       /* records that the client has not fetched */
	CK_RANK_WORDS = CK_RANK_LEAF,	       /* messages for the program's user */
	CK_RANK_DEVICE_MAP = CK_RANK_LEAF,     /* on which GPUs the devices are */
	CK_RANK_METER_PIECES = CK_RANK_LEAF,   /* the pieces of that */
	CK_RANK_METER_PHYSICAL = CK_RANK_LEAF, /* physical memory and its mappings, for the same */
	CK_RANK_METER_LIMITS = CK_RANK_LEAF,   /* limits that the program has set, for the same */
};

#endif
