/*
 * loader/lhinfo.h - the contract between the loader and the halves of a process.
 *
 * A half is one ELF program with an ld.so and a libc of its own, in a window of the address space.
 * Half 0 is the upper half, the application; the others are lower halves, libraries that the
 * application calls through stubs. All of them find struct lhinfo through the environment variable
 * LHINFO_PTR: "0x" and 16 hexadecimal digits; 0xffffffffffffffff, or the address of a struct whose
 * magic or pid is wrong (a variable inherited over exec), means that there is no loader.
 *
 * A thread that runs a half's code has that half's thread block in FS. Whoever crosses from one
 * half to another changes it. GS points at the thread's struct lh_thread, which has the FS of each
 * half; a thread is known by fs[0], because it inherits the GS of the thread that made it.
 *
 * The functions in here belong to the loader. They need no libc and no particular FS, so that they
 * may be called from any half, any thread, and from a signal handler.
 */
#ifndef CK_LOADER_LHINFO_H
#define CK_LOADER_LHINFO_H

/* Offsets for loader/stubs/call.S; checked at the end of this file. */
#define LHINFO_HALF0 64
#define LHINFO_HALF_SIZE 256
#define LHINFO_HALF_TABLE 48
#define LHINFO_FSGSBASE 24
#define LHTHREAD_FS 8
#define LHINFO_HALVES 8 /* upper half included */

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

#define LHINFO_ENV "LHINFO_PTR"
#define LHINFO_UNSET 0xffffffffffffffffull
#define LHINFO_MAGIC 0x4f464e49484b4331ull /* "1CKHINFO" in memory */
#define LHINFO_VERSION 1
#define LHINFO_UPPER_BYTES 65536

enum lh_fork_stage { LH_FORK_PREPARE, LH_FORK_PARENT, LH_FORK_CHILD };

enum lh_state { LH_EMPTY, LH_LOADING, LH_READY, LH_FINISHED, LH_DROPPED };

/* The state of one thread in each half. Never unmapped: a stale GS still points at one. */
struct lh_thread {
	struct lh_thread *self;
	uint64_t fs[LHINFO_HALVES];		 /* FS there; 0: the thread has not been there */
	struct lh_parked *parked[LHINFO_HALVES]; /* whose FS that is; NULL: the main thread's own */
	int32_t tid;				 /* the thread that owns the block; 0: free */
	uint32_t pad;
};

/*
 * A thread of a lower half that lends its thread block to a thread of the application and sleeps
 * meanwhile. It lives on that thread's own stack.
 */
struct lh_parked {
	uint64_t fs;
	uint32_t leave; /* futex: 1 when the thread may end */
};

/* How a thread block is asked for: by a futex, since the asker may run nothing of the half. */
struct lh_manager {
	uint32_t lock;		  /* futex lock of the askers: pid of the owner's process */
	uint32_t asked, given;	  /* futexes: numbers of requests and of answers */
	struct lh_parked *parked; /* the answer; NULL: the half could not make a thread */
};

struct lh_half {
	char name[16];
	uint64_t base, end;	    /* the window */
	uint32_t state, generation; /* enum lh_state; loads of this half so far */
	uint64_t fs;		    /* FS of the thread that loaded it */
	void **table;		  /* functions, in the order of names; NULL while there are none */
	const char *const *names; /* the half's functions, NULL-terminated */
	void *(*dlsym)(const char *name); /* any symbol of the half; to be called on its FS */
	void *(*exit_entry)(void);	  /* its libc's _exit */
	uint64_t entry;			  /* where its program starts */
	struct lh_manager manager;
	uint64_t hash; /* of the names: stub and half must be of one build */
	/* runs the functions that the half's libraries gave pthread_atfork, on its FS; stage: enum
	 * lh_fork_stage. NULL: they gave nothing */
	long (*forked)(void *stage);
	/*
	 * descriptors that the half has open, a bit each; they are closed when the half is dropped
	 */
	uint64_t *descriptors;
	uint64_t descriptor_words;
	/* fetches memory of the half that is elsewhere until it is touched, or copies its bytes,
	 * for a system call; argument: struct lh_range. 0 or -errno. NULL: there is no such
	 * memory */
	long (*bring)(void *range);
	/*
	 * with bring: the application's action for the signal that reports touches; argument:
	 * struct lh_action. 0 or -errno
	 */
	long (*action)(void *action);
	/*
	 * the application has called _exit(status), so its exit handlers do not run;
	 * async-signal-safe. It may end the process itself. NULL: the half does not care
	 */
	long (*leave)(void *status);
	uint64_t reserved[11];
};

struct lh_range {
	void *at;
	size_t size;
	const void *from; /* bytes to store there, */
	void *to;	  /* or where to copy its bytes; both NULL: fetch it */
};

/* As sigaction(2) has them; a handler of the application is given as lhinfo->handler() says. */
struct lh_action {
	int sig;
	const void *act;
	void *old;
};

/*
 * The target of a callback: @user is the argument of callback(); @stack are the seventh and eighth
 * argument, whether the caller passed as many or not.
 */
typedef long (*lh_target)(long a, long b, long c, long d, long e, long f, void *user,
			  const long *stack);

struct lhinfo {
	uint64_t magic;
	uint32_t version, halves; /* halves: how many of half[] are in use */
	int32_t pid;		  /* of the process that was loaded; a fork's child has another */
	uint32_t generation;	  /* counts every load of any half */
	uint32_t fsgsbase;	  /* 1: user code may use wrfsbase */
	uint32_t exiting;	  /* set by the upper half in exit(): lower halves are to end too */
	uint64_t size;		  /* of this struct */
	int32_t child;		  /* pid of the child that fork() has made of it, if this is one */
	uint32_t pad;
	uint64_t reserved[2];
	struct lh_half half[LHINFO_HALVES];

	/* Called once by the main of a lower half, with everything filled in that is its own; comes
	 * back when the half is to end. And by the upper half before its first own constructor. */
	void (*ready)(struct lh_half *half);
	/*
	 * The thread block of the calling thread, with fs[half] in it; NULL: none is available (a
	 * child of fork calls, in a thread that it made). leave() undoes enter().
	 */
	struct lh_thread *(*enter)(unsigned int half);
	void (*leave)(void);
	/* A function that code of @half may call: it runs target(..., user) in the upper half, on
	 * the application's FS. The same pair gives the same address. NULL: all are in use. */
	void *(*callback)(unsigned int half, lh_target target, void *user);
	/* The target and user behind such an address: 0; -1 when it is none. */
	int (*callback_of)(const void *address, lh_target *target, void **user);
	/* The upper half's service threads wait here for callbacks from a lower half's own threads;
	 * @more is called when none waits any more. Returns never. */
	void (*serve)(void (*more)(void));
	/* Calls function(argument) on the FS of @half. */
	long (*call)(unsigned int half, long (*function)(void *argument), void *argument);
	/* Makes @handler the application's for this signal, without a word to the kernel; the
	 * address by which any half may call it (sig, info, context). NULL, SIG_DFL, SIG_IGN:
	 * nothing changes. */
	void *(*handler)(int sig, void *handler);
	/* Ends a lower half and removes it; loads it again at the same place. 0 or -errno. */
	int (*drop)(unsigned int half);
	int (*load)(unsigned int half);

	/* State of the upper half for a lower half that is loaded again. */
	unsigned char upper[LHINFO_UPPER_BYTES];
};

_Static_assert(offsetof(struct lhinfo, half) == LHINFO_HALF0, "call.S");
_Static_assert(sizeof(struct lh_half) == LHINFO_HALF_SIZE, "call.S");
_Static_assert(offsetof(struct lh_half, table) == LHINFO_HALF_TABLE, "call.S");
_Static_assert(offsetof(struct lhinfo, fsgsbase) == LHINFO_FSGSBASE, "call.S");
_Static_assert(offsetof(struct lh_thread, fs) == LHTHREAD_FS, "call.S");
#endif
#endif
