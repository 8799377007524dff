/*
 * loader/half.h - the halves as the loader sees them.
 */
#ifndef CK_LOADER_HALF_H
#define CK_LOADER_HALF_H

#include "loader/elf.h"
#include "loader/lhinfo.h"
#include "loader/sys.h"

/* The description of a half, from the command line, the environment and the files. */
struct ck_half {
	char name[16];
	char path[4096]; /* of the program */
	char ldso[256];	 /* its PT_INTERP */
	const char *argv0;
	char **args;		       /* the arguments after argv[0], NULL-terminated */
	struct ck_elf program, linker; /* as read from the files */
	uint64_t base, end;
	uint64_t linker_base;
	bool linker_argv0; /* its ld.so accepts the program's argv[0] */
	bool known_libc;   /* its libc was mapped, and its calls are intercepted */
	uint64_t rsp;	   /* of its main, which sleeps in ready() */
};

extern struct ck_half ck_halves[LHINFO_HALVES];
extern struct lhinfo ck_info;

/* The common start parameters of all halves. */
extern struct ck_start {
	char **envp;
	uint64_t *auxv;
	char folder[4096]; /* where the loader lies */
	char lhinfo[64];   /* LHINFO_PTR=0x... */
} ck_start;

/*
 * Maps ld.so, builds a stack, enters the program: a lower half returns when it calls ready(); the
 * upper half does not. An earlier failure is reported, and ends the loader with status 2.
 */
void ck_half_run(unsigned int half);

/* Has the main of a ready lower half return and its exit handlers run, on this thread. */
void ck_half_finish(unsigned int half);

/*
 * The half's libc maps a file's code. If that is libc itself, its calls are intercepted. 0 or
 * -errno.
 */
int ck_half_mapped(unsigned int half, uint64_t at, size_t size, int fd, uint64_t offset);

/* The functions behind lhinfo's pointers of the same names. */
void ck_half_ready(struct lh_half *half);
int ck_half_drop(unsigned int half);
int ck_half_load(unsigned int half);

/* loader/thread.c */
void ck_thread_first(void); /* for the thread that the process starts with */
struct lh_thread *ck_thread_enter(unsigned int half);
void ck_thread_leave(void);
long ck_thread_call(unsigned int half, long (*function)(void *argument), void *argument);
/* The calling thread uses @fs, another thread's, in @half; 0: no longer. */
void ck_thread_lend(unsigned int half, uint64_t fs);
/* The calling thread's own FS in @half, where it has loaded that half itself. */
void ck_thread_loaded(unsigned int half, uint64_t fs);
/* The block of the calling thread if it has one and GS points at it; @half: where FS is now. */
struct lh_thread *ck_thread_here(uint64_t fs, int half);
/* Takes fs[half] from every thread, without a word to the half, which is gone. */
void ck_thread_forget(unsigned int half);

/* loader/callback.c */
void *ck_callback_get(unsigned int half, lh_target target, void *user);
int ck_callback_of(const void *address, lh_target *target, void **user);
void ck_callback_serve(void (*more)(void));

/* loader/signal.c: in place of rt_sigaction(2), for half @half. */
long ck_signal_action(unsigned int half, int sig, const void *act, void *old, size_t size);
/* lhinfo->handler */
void *ck_signal_handler(int sig, void *handler);
/* Puts the signal actions of half @half back to the default. */
void ck_signal_forget(unsigned int half);

/* loader/drop.c */
bool ck_drop_probe(int sig, const void *value);

/* loader/map.c */
void ck_map_print(int fd);
void ck_map_gdb(const char *path);
/* Whether code of a file lies in no window where it should lie in one, and which file. */
#define CK_STRAY_SIZE 512
bool ck_map_stray(char name[CK_STRAY_SIZE]);

/* loader/vdso.c */
void ck_vdso_pin(uint64_t *auxv);

#endif
