/*
 * server/processes/messages.h - the arguments and descriptors of workers, and their messages
 * to and from the supervisor.
 */
#ifndef CK_SERVER_PROCESSES_MESSAGES_H
#define CK_SERVER_PROCESSES_MESSAGES_H

#include <stdint.h>

#include "server/processes/peer.h"
#include "server/session/device_map.h"
#include "server/session/histogram.h"
#include "server/session/identity.h"
#include "util/process/machine.h"

/* First argument of a worker, and of a spare one. */
#define CK_WORKER_ARGUMENT "--worker"
#define CK_SPARE_ARGUMENT "--spare"
#define CK_SPARE_NAME "cricket-spare" /* of the process, until it has a client */

/* Descriptors of a new worker. */
#define CK_WORKER_CONNECTION 3 /* the client's first, hello unread; spare: /dev/null */
#define CK_WORKER_CONTROL 4    /* SOCK_SEQPACKET: struct cks_worker_note up, connections down */

/*
 * A supervisor that was upgraded has workers of older releases, so these messages may only grow:
 * new kinds with new numbers, and new fields at the end. Both sides ignore kinds that they do not
 * know, and bytes behind those that they know. Missing bytes are 0.
 */

#define CK_NOTE_TEXT 96
#define CK_NOTE_HOST 64
#define CK_NOTE_GPUS 16

/* Sent by the worker: a spare reports that its driver is initialised, and that its contexts exist;
 * each worker reports once that its session exists and connections may join it by this id. It asks
 * for the other sessions' free memory as often as it needs some. While the session is in use, it
 * reports its device memory. It answers CK_CONTROL_PARK. */
struct cks_worker_note {
	enum {
		CK_NOTE_STANDBY = 0,
		CK_NOTE_READY = 1,
		CK_NOTE_SESSION = 2,
		CK_NOTE_PRESS = 3,
		CK_NOTE_USE = 4,
		CK_NOTE_PARKED = 5, /* no thread uses the driver until CK_CONTROL_UNPARK */
		CK_NOTE_BUSY = 6,   /* or why it cannot be parked */
		CK_NOTE_WANTED = 7, /* parked, and its client wants the GPU */
		CK_NOTE_LEFT = 8,
		CK_NOTE_END = 9, /* the process ends now */
		/* of a session that shares a GPU by weight (server/rules/fair_share.h): */
		CK_NOTE_ASK = 10,  /* its client wants the GPU */
		CK_NOTE_TURN = 11, /* its turn is over, and so is its work */
		CK_NOTE_CUT = 12,  /* all connections of its client are cut, or no longer */
		/* after CK_CONTROL_UNPARK, of a session that has moved memory itself: */
		CK_NOTE_RETURNED = 13, /* its memory is back, and it goes on */
		CK_NOTE_NO_ROOM = 14,  /* the GPU has no room: it is parked as before; why */
		CK_NOTE_LOST = 15,     /* its memory cannot be brought back; why */
		CK_NOTE_FOUND = 16,    /* it does not wait for memory any more */
		/* between CK_CONTROL_PARK and _PARKED: it begins to give memory back */
		CK_NOTE_LEAVING = 17,
		CK_NOTE_ROUND = 18, /* after CK_CONTROL_ROUND */
	} kind;
	unsigned char session[16];
	/* of CK_NOTE_SESSION: the client's program; of CK_NOTE_BUSY, _LEFT, _NO_ROOM and _LOST: why
	 * not; empty: it has left; of _END: why */
	char text[CK_NOTE_TEXT];
	/* of CK_NOTE_SESSION: its process id; of _PRESS, _USE, _PARKED and _LEAVING: bytes; of
	 * _END: most bytes that it had; of _TURN: the serial number; of _CUT: ms for which it waits
	 * for others; 0: it has one */
	uint64_t number;
	uint64_t uses; /* of CK_NOTE_USE: grows while the session uses the GPU; of _TURN: 1 if it
			  * used its time to the end */
	/* of CK_NOTE_SESSION: whose it is, for a supervisor that has not seen its first
	 * connection */
	struct cks_peer peer;
	struct cks_identity identity;
	char host[CK_NOTE_HOST]; /* of CK_NOTE_SESSION: the client's machine, as it calls itself */
	/* of CK_NOTE_USE and _END, since the session began: calls that were answered, one-way
	 * commands, bytes */
	uint64_t calls, commands, received, sent;
	/* of CK_NOTE_USE, _PARKED and _SESSION: GPUs that it has contexts on, each a mark of its
	 * UUID; 0: none */
	uint32_t gpus[CK_NOTE_GPUS];
	/* of CK_NOTE_USE and _END, since the session began */
	struct cks_histogram call_times, round_trips;
	uint32_t user; /* of CK_NOTE_SESSION: which it has become (--worker-users); 0: none */
	unsigned char machine
		[CK_MACHINE_ID]; /* of CK_NOTE_SESSION: the client's, as it says; zeros: unknown */
	/* of CK_NOTE_PARKED, _SESSION and _NO_ROOM: bytes of device memory that it has moved into
	 * host memory itself; of these and of _USE and _RETURNED: bytes of host memory for that */
	uint64_t away, pool;
	uint32_t move_ms;		/* of CK_NOTE_PARKED and _RETURNED: that this took */
	uint64_t away_on[CK_NOTE_GPUS]; /* of CK_NOTE_PARKED: away, in the order of gpus */
	/* of CK_NOTE_LEFT: the address of struct cks_pool_table (pool_table.h); 0: nothing is away
	 */
	uint64_t table;
	/* the same of struct cks_pool_saved; 0: there is none; of _ROUND too */
	uint64_t known;
	int32_t pool_fd; /* and the descriptor of its file; 0: there is none */
};

/* Sent by the supervisor: with a connection, one that joins or a spare's client; alone, to a spare
 * that is to make its contexts. */
#define CK_CONTROL_JOIN 'J'
#define CK_CONTROL_CLIENT 'C'
#define CK_CONTROL_WARM 'W'
/* Without one: another session needs memory; and the answers that there is no other session, and
 * that the others stay, but return free memory. */
#define CK_CONTROL_PRESS 'P'
#define CK_CONTROL_ALONE 'A'
#define CK_CONTROL_NONE 'n'
/* As struct cks_control_words: the server stops; a command ends the session. */
#define CK_CONTROL_STOP 'S'
#define CK_CONTROL_END 'E'
/* The same for a session whose client has no connections: it cannot hear why. */
#define CK_CONTROL_GONE 'D'
/* One of them leaves the GPU for it: wait for the second message. */
#define CK_CONTROL_COMING 'M'
#define CK_CONTROL_MADE 'N'
/* To a process that has outlived its supervisor: it has a new one (orphan_reconnect.h). */
#define CK_CONTROL_TAKEN 'T'
/* Keep all threads away from the driver, or no longer. */
#define CK_CONTROL_PARK 'K'
#define CK_CONTROL_UNPARK 'U'
/* The first is struct cks_control_park: the worker moves device memory into at most @room bytes of
 * host memory (server/evacuation/evacuation.h). The second is struct cks_control_unpark, and is
 * answered if any memory is away: the worker waits at most @room_ms for the room for it, or takes
 * the @leaving bytes that another session begins to give back. */
struct cks_control_park {
	char kind, saves; /* for a checkpoint, after which the session goes on */
	char unused[2];
	uint32_t pool_s; /* seconds for which host memory is kept for the next time; 0: a minute */
	uint64_t room;
};
struct cks_control_unpark {
	char kind, unused[3];
	uint32_t room_ms;
	uint64_t leaving;
};
/* As struct cks_control_park, while the session runs: copy device memory that has changed into host
 * memory. Answered in any case. */
#define CK_CONTROL_ROUND 'r'
/* Without one: another session returns to the GPU, take no device memory; and it has returned. */
#define CK_CONTROL_FREEZE 'Z'
#define CK_CONTROL_THAW 'Y'
/* Close all connections of the client, and report it; and after that: take some again. The worker
 * may have been written into files in between, and belong to another supervisor. */
#define CK_CONTROL_LEAVE 'L'
#define CK_CONTROL_RETURN 'R' /* with the file of its pool, if that has left it */
/* In between: the pieces of its table are in a file: drop the pages. */
#define CK_CONTROL_DROP 'O'

/* With the file of an account (server/policy/account.h), as struct cks_control_account: count
 * device memory there. With --policy it is the first message to a worker with a client, and may
 * come again. */
#define CK_CONTROL_ACCOUNT 'Q'
struct cks_control_account {
	char kind, unused[3];
	uint32_t seat;
};

/* With --worker-users or --confine, the first message to a worker with a client, as struct
 * cks_control_user: become @user, unless that is 0, with the folder of the module cache that comes
 * with it. The supervisor has judged the client. */
#define CK_CONTROL_USER 'X'
struct cks_control_user {
	char kind, unused[3];
	uint32_t user;
	struct cks_identity identity;
};

/* As struct cks_control_turn: wait for turns on the GPU; here is one; or go on without. */
#define CK_CONTROL_HOLD 'H'
#define CK_CONTROL_TURN 'V'
#define CK_CONTROL_FREE 'F'
struct cks_control_turn {
	char kind, unused;
	/* of a turn beside sessions of higher priority, else 0: how many messages a worker of an
	 * older release takes; others bound their launches */
	uint16_t messages;
	uint32_t serial, window_us; /* its number; how long it may submit work */
	uint32_t quiet_us; /* it ends early after this time without messages; 0: the worker's own */
};

/* As struct cks_control_words: a line for the program's user (server/session/user_messages.h);
 * @last: and the session ends. */
#define CK_CONTROL_WORDS 'B'
/* The same: why memory is refused, for a program whose allocation fails. */
#define CK_CONTROL_REFUSAL 'I'
struct cks_control_words {
	char kind, last;
	char text[CK_NOTE_TEXT]; /* empty from a supervisor of an older release */
};

/* As struct cks_control_map, while it is parked: its devices are on these GPUs now. */
#define CK_CONTROL_MAP 'G'
struct cks_control_map {
	char kind, unused[3];
	struct cks_device_map map;
};

/* As struct cks_control_names, to a session from files before CK_CONTROL_RETURN: it is a copy, so
 * it has names and a secret of its own, and the process ids of its program mean nothing. */
#define CK_CONTROL_NAMES 'c'
struct cks_session_names {
	unsigned char id[16], key[16], secret[32];
};
struct cks_control_names {
	char kind;
	struct cks_session_names names;
};

/* Exit status of a spare that failed to get ready. */
#define CK_SPARE_FAILED 3

#endif
