/*
 * server/processes/session_info.h - a session as the supervisor knows it, and passes it to its
 * successor.
 */
#ifndef CK_SERVER_PROCESSES_SESSION_INFO_H
#define CK_SERVER_PROCESSES_SESSION_INFO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/processes/gpu_room.h"
#include "server/processes/gpu_share.h"
#include "server/processes/messages.h"
#include "server/processes/peer.h"
#include "server/session/identity.h"
#include "util/uuid.h"

/* The owner of a session. */
struct cks_owner {
	struct cks_peer peer;
	struct cks_identity identity;
};

/* The connection that a command came from, for an answer that comes later. */
struct cks_asker {
	unsigned int slot, serial;
};

#define CK_WISH_TEXT 128
#define CK_THERE_TEXT (CK_MAP_GPUS * CK_UUID_TEXT)

/* Of each session; all 0 at its begin. */
struct cks_suspension {
	enum {
		CK_RUNNING,
		CK_PARKING,    /* its worker comes to rest, and moves memory */
		CK_MOVING_OUT, /* the driver moves the rest */
		CK_SUSPENDED,
		CK_MOVING_IN, /* the driver moves it back, */
		CK_RETURNING, /* and now its worker */
	} state;
	int64_t since;		  /* the state; times are in ms */
	bool held, was_held;	  /* until a command resumes it; before that command */
	bool wanted;		  /* its client wants the GPU, or a command resumes it */
	bool was_wanted;	  /* without that command */
	unsigned int no_room;	  /* how often in a row it has found none to resume, */
	bool tried;		  /* and the driver has tried */
	bool stuck;		  /* and no other can make any, until it tries again */
	struct cks_gpu_room need; /* its memory on each GPU */
	/* to which GPU a command wants it, as in "1" or "0=1,1=0"; "": to its own */
	char wish[CK_WISH_TEXT];
	/* UUIDs of the GPUs of the machine that it left, if that may be another one */
	char there[CK_THERE_TEXT];
	int64_t again;			/* do not resume it before this time */
	uint64_t bytes;			/* of GPU memory that lie, or will, in host memory */
	uint64_t away;			/* of them, those that its worker has moved, */
	uint64_t away_on[CK_NOTE_GPUS]; /* and on which GPUs, as in its note */
	uint64_t leaving;		/* in CK_PARKING: bytes that it gives back now */
	bool offered;			/* to one that waits for them */
	bool beside;			/* in CK_RETURNING: it takes such bytes */
	bool to_park;			/* it is to be parked only: contexts stay on the GPU */
	bool saves;			/* it is written into files then, and goes on */
	bool parked;			/* it is: in CK_SUSPENDED */
	unsigned int ms;		/* that the move so far has taken */
	int device;			/* that it has come to on this way back; -1: its own */
	bool pressed;			/* to return memory, and has not reported since */
	uint64_t uses;			/* of its worker's note, */
	int64_t used;			/* and when they changed last */
	/* its worker wants memory; others were asked to return some, or there are none */
	enum {
		CK_NO_MEMORY_REQUEST,
		CK_MEMORY_REQUEST_ALONE,
		CK_MEMORY_REQUEST_SENT
	} memory_request;
	int64_t memory_requested_at;
	bool coming;	      /* and waits, at the supervisor's request, */
	uint64_t left_before; /* when so many had left */
	int64_t spared;	      /* until this time it does not leave for others */
	/* its turns (server/life/suspend_turns.c), in ms: its time on the GPU, and that when the
	 * latest one began */
	int64_t served, begun;
	/* how long it took to leave the GPU, and to return; 0: unknown */
	unsigned int out_ms, in_ms;
	pid_t mover;	 /* the process that moves it; 0: it has ended */
	int answer;	 /* of which */
	int64_t stopped; /* since then the program stands still for it, in ms; 0: it does not */
	bool told;	 /* its user knows */
	bool asked;	 /* a command waits: */
	struct cks_asker asker;
	char why[200];		     /* it could not be suspended */
	struct cks_worker_note said; /* the answer to CK_CONTROL_PARK; kind 0: none yet */
};

/* A session as commands and policies see it; the worker's row owns it. */
struct cks_session_info {
	unsigned int number; /* for its public name; never used again */
	pid_t pid;	     /* of the worker */
	uint32_t user;	     /* that the worker has become (--worker-users); 0: none */
	uint32_t mps;	     /* its daemon of NVIDIA MPS (server/children/mps.h); 0: none */
	pid_t follower;	     /* the child that ends with it; 0: it is a child itself */
	struct cks_owner owner;
	char program[CK_NOTE_TEXT]; /* of the client, as it calls itself */
	unsigned int client_pid;
	unsigned char machine[CK_MACHINE_ID]; /* the client's, as it says; zeros: unknown */
	struct cks_cut {
		int64_t since, until; /* the client has no connections, in ms; 0: it has some */
		int64_t ending;	      /* the worker was told to end then; 0: it was not */
		int64_t reported;     /* when others said that the program has ended; 0: never */
	} cut;
	uint64_t memory;	     /* bytes of device memory, as last reported */
	uint64_t pool;		     /* bytes of host memory for that, while it is parked */
	uint32_t gpus[CK_NOTE_GPUS]; /* that it has contexts on, as in struct cks_worker_note */
	int moved;     /* 0, or 1 and the server's number of the GPU that it has moved to */
	uint64_t peak; /* the most of them */
	struct cks_session_use {
		char host[CK_NOTE_HOST];		  /* of the client, as it calls itself */
		int64_t begun;				  /* in ms */
		int64_t begun_us;			  /* the same, unless it returned */
		uint64_t calls, commands, received, sent; /* as in struct cks_worker_note */
		uint64_t gpu_us;			  /* with --gpu-time */
		struct cks_histogram call_times, round_trips;
	} use;
	struct cks_suspension suspension;
	struct cks_share share;
	enum { CK_STAYS, CK_LEFT, CK_CANNOT_LEAVE } left; /* the reply to CK_CONTROL_LEAVE */
	/* of CK_NOTE_LEFT, known also of _ROUND */
	uint64_t table, known;
	int pool_fd;	     /* the same; 0: none */
	unsigned int rounds; /* how often CK_NOTE_ROUND has come */
	/* The worker is about to map the file of its pool again. The driver must not restore it
	 * before: it would pin other pages. */
	bool pool_sent;
	char why[CK_NOTE_TEXT];	  /* it cannot leave */
	char cause[CK_NOTE_TEXT]; /* of its end, in its worker's words */
	bool end_reported;	  /* by its worker: it ends in order */
	struct cks_deadline {
		bool warned;   /* that its time is nearly over */
		int64_t idle;  /* suspension.used, when it was warned that it is idle */
		int64_t ended; /* when it was told to end, in ms; 0: not yet */
	} deadline;
	enum cks_drain_told { CK_DRAIN_UNTOLD, CK_DRAIN_BEGUN, CK_DRAIN_NEAR } drain_told;
	bool written;	     /* it is being written into files, and ends then */
	int64_t saved;	     /* when --checkpoint-every has saved it last, in ms, */
	uint64_t saved_uses; /* and its suspension.uses then */
};

/* The child of the supervisor whose end is that of the session. */
static inline pid_t cks_session_child(const struct cks_session_info *session)
{
	return session->follower ? session->follower : session->pid;
}

#endif
