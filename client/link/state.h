/*
 * client/link/state.h - the session state of client/wire: parts of struct ckc_client. Only the file
 * of its name uses a structure.
 */
#ifndef CK_CLIENT_LINK_STATE_H
#define CK_CLIENT_LINK_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/link/locks.h"
#include "client/link/connection_count.h"
#include "cuda/types.h"
#include "util/spin.h"
#include "util/wait.h"

struct ck_chan;
struct ckc_client;
struct ck_links;
struct ckc_lane;
struct ck_map;
struct ck_packer;
struct ck_server_addresses;
struct ck_server_entry;
struct ck_status_file;

/* session.c */
struct ckc_connection {
	struct ck_mutex set_up_lock;
	/* the server as the user wrote it, without devices; empty: any of this host; NULL:
	 * of the environment */
	const char *wish;
	const struct ck_server_entry
		*entry;	  /* the same, with the devices; NULL: of the environment */
	const char *rest; /* the consequence of no session, for messages; NULL: none */
	bool hurried;	  /* if it has no session, there is another choice: do not wait for one */
	/* the servers that the wish stands for, while connecting */
	struct ck_server_addresses *places;
	unsigned int place;	  /* the one of them that is being tried */
	unsigned int busy;	  /* the first that was full, from 1 on; 0: none */
	bool patient;		  /* none has a session: wait at this one */
	bool unfinished;	  /* the one being tried did not finish a handshake: try it again */
	unsigned int pause_ms;	  /* before such another attempt */
	char address[512];	  /* the server's address as found */
	char joins[512];	  /* resolved: the name may change its meaning */
	char pin[72];		  /* of the server's key; empty: no TLS */
	struct ck_secure *secure; /* NULL: not yet */
	bool direct;		  /* TLS ends in the worker, except on the first connection */
	/* Transports that may be used on this host. */
	enum { CK_SOCKETS, CK_RINGS_IF_ANY, CK_RINGS } wanted;
	/* -errno: why this process could not make shared memory for the first connection */
	int no_rings;
	CUresult failed; /* result of a failed attempt to connect */
	bool connecting; /* an attempt is in progress */
	struct ck_mutex images_lock;
	struct ck_map *images;	     /* images on the server, by alias (rpc/image_alias.h) */
	unsigned char images_of[16]; /* the session's first id, of which aliases are made */
};

struct ckc_loss { /* exit.c */
	struct ck_mutex lock;
	struct ck_cond reported; /* the session is lost, and the user knows */
	atomic_bool noticed;	 /* by the thread that reports it */
};

struct ckc_waiting { /* queue.c */
	unsigned char ticket[16];
	uint64_t until_ns; /* 0: the user does not wish to wait */
	uint64_t told_ns;  /* when the place was printed last; 0: not yet */
	bool catching;	   /* our handler of SIGINT is in place */
};

struct ckc_departed { /* hello.c: programs of which the server has asked whether they have ended */
	bool answers; /* the next hello answers that: */
	unsigned int asked, count;
	uint32_t ended[64]; /* CK_ENDED_MAX */
};

struct ckc_keeping {		/* reconnect.c */
	struct ck_links *links; /* NULL: the session ends with its connections */
	void (*lost)(struct ckc_client *c, const char *why);
	unsigned int seconds; /* that the server waits for new ones */
	_Atomic uint32_t numbers;
	/* the session's id and key, which a copy of the program replaces (repair.h) */
	struct ck_mutex names_lock;
	pid_t process;	     /* that has the session; its children do not */
	atomic_bool leaves;  /* the process ends, and the keeper says goodbye: */
	atomic_bool left;    /* it has, or cannot */
	atomic_bool leaving; /* the process ends */
	atomic_bool told;    /* the user knows that connections are missing */
	/* the keeper's: */
	int64_t since; /* in ms, when they were; 0: they are not */
	int64_t heard; /* in ms, when the server has last said that the session leaves */
	int pause_ms;
	char moved[256];      /* the server that the session is on now; empty: where it was */
	bool arriving;	      /* it may not be there yet */
	atomic_bool held;     /* the program is in files, or has just come from there */
	_Atomic int64_t back; /* in ms, when such a program had its connections again */
	atomic_int replaces;  /* attempts left to replace relayed connections */
	int64_t replace_at;   /* in ms, the next */
};

#define CKC_FAR_NS 1000000 /* the shortest round trip to a server that is not near */
/* The same for connections in reserve. Only connecting has been timed so far, and a near server
 * that is busy may take some milliseconds for that. */
#define CKC_RESERVE_NS 5000000

struct ckc_lanes {
	struct ck_mutex lock;
	struct ckc_lane *pool;
	struct ckc_lane *newest;    /* all lanes, for a forked child */
	unsigned int made;	    /* how many there have been */
	_Atomic uint32_t delivered; /* all deliveries up to this rank have arrived */
	/* The shortest exchange so far, over a network; 0: there was none. */
	_Atomic uint64_t round_trip_ns;
	_Atomic bool refused; /* a thread got none, which is logged once */
};

struct ckc_command {
	struct ck_mutex lock;
	struct ck_cond written; /* the writer has finished a piece */
	struct ck_cond work;	/* there is work for the sender */
	struct ck_chan *chan;
	bool shared; /* uses shared memory; the fields below are unused */
	unsigned char *buf[2];
	_Atomic size_t len; /* of the buffer being filled */
	int fill;
	bool writing; /* a thread is writing the other buffer */
	bool sender_sleeps;
	bool broken;
	bool accepted; /* the reply to the join has been read */
	uint64_t last_write_ns;
	_Atomic unsigned int burst; /* messages that program threads have written since a wait */
	struct ck_spin spin;
	void (*failed)(struct ckc_client *c, int ret); /* a write */
	_Atomic uint64_t seq;
	_Atomic uint64_t calls;	    /* calls that enqueued work */
	_Atomic uint64_t last_wait; /* the number of the last command that is a one-way wait */
	/* As ckc_command_last counts: the last command that is not quiet; the last one that may be
	 * in a legacy stream. */
	_Atomic uint64_t loud, legacy;
};

#define CK_DELIVERIES_EARLY 1024 /* ranks received out of order: far more than threads */

/* delivery.c */
struct ckc_deliveries {
	struct ck_mutex lock;
	struct ck_cond changed;
	struct ck_map *copies;
	uint64_t numbers;
	uint32_t early[CK_DELIVERIES_EARLY];
	size_t early_count;
	_Atomic unsigned int count;    /* outstanding copies */
	struct ck_mutex starting_lock; /* taken first */
	unsigned int threads, opening; /* that receive; that are connecting */
};

#define CKC_DEAR_NS 40000 /* a query that takes less does not need to be avoided */

struct ckc_watches { /* status.c */
	struct ck_mutex lock;
	bool tried;
	struct ck_status_file *_Atomic file; /* NULL: the server does not share one */
	_Atomic uint64_t numbers;
	/* The mean time of a query of the server, with the commands before it. From dear_ns on,
	 * records are watched instead. */
	_Atomic uint64_t ask_ns;
	uint64_t dear_ns;
	atomic_int credit; /* so many further records are watched from the start */
};

/* server_pings.c */
struct ckc_suspicion {
	_Atomic uintptr_t asker; /* the thread that pings; 0: not yet */
	struct ck_mutex lock;
	struct ck_cond asked;
	bool running, wanted;
	uint64_t since; /* written by the asking thread */
	bool told;
};

struct ckc_share {
	struct ck_mutex *lock; /* NULL: of one thread */
	size_t size, next;     /* bytes of the copy, and those taken */
	size_t even;	       /* each part's size; 0: a share of the rest */
	unsigned int threads;
};

/* striping.c: one copy and its parts. The lock guards all but the fields that part threads read. */
struct ckc_spreading {
	struct ck_mutex one_lock; /* held by the caller of the current copy */
	struct ck_mutex lock;
	struct ck_cond work, done;
	unsigned int threads; /* helpers that run or connect */
	unsigned int busy;    /* threads that copy */
	CUresult (*fn)(const void *copy, struct ckc_share *share);
	const void *copy;
	struct ckc_share share;
	CUresult err;
	uint32_t number; /* of the call that copies, for a profiler; 0: none */
	struct ckc_connection_count counts[2]; /* of uploads, of downloads */
};

#define CK_PACKERS 8 /* kept for the next copy */

struct ckc_compression { /* compression.c */
	struct ck_mutex lock;
	struct ck_packer *packers[CK_PACKERS]; /* unused ones */
	unsigned int idle;		       /* their number */
	/* Estimates: lost updates of copies at the same time do not matter. */
	_Atomic uint64_t link, samples; /* bytes per second to the server; measurements of it */
	_Atomic uint64_t speed; /* bytes per second that one thread compresses; 0: not known */
	_Atomic uint64_t unproven_ns;	/* taken by compressed copies since the last measurement */
	_Atomic uint64_t pause, paused; /* copies not to compress; how many they were at first */
	_Atomic uint64_t hidden; /* bytes of the largest copy whose wait was mostly a round trip */
};

struct ckc_answers {	       /* cache.c */
	pthread_rwlock_t lock; /* leaf */
	struct ck_map *map;
	uint64_t changes;    /* counts drops from the cache */
	atomic_bool altered; /* the program has changed a setting that answers depend on */
};

/* object.c */
struct ckc_named {
	struct ck_mutex lock;
	struct ck_map *objects; /* by ids that the server chose */
};

#endif
