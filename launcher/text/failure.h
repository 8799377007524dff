/*
 * launcher/text/failure.h - why a request failed: the exit code and the error object of
 * docs/launcher-protocol.md.
 */
#ifndef CK_LAUNCHER_TEXT_FAILURE_H
#define CK_LAUNCHER_TEXT_FAILURE_H

#include "cuda/types.h"

/* Exit codes of gpu_launcher; part of its contract. */
enum ckl_exit {
	CK_EXIT_OK = 0,
	CK_EXIT_USAGE = 1,
	CK_EXIT_INPUT = 2,  /* the request makes no sense */
	CK_EXIT_FILE = 3,   /* a file that cannot be read, or a source that does not compile */
	CK_EXIT_MODULE = 4, /* no module of it, or no such kernel in it */
	CK_EXIT_MEMORY = 5, /* too little memory, of the GPU or here */
	CK_EXIT_LAUNCH = 6, /* refused by the driver, or faulted */
	CK_EXIT_TIMEOUT = 7,
	CK_EXIT_SERVICE = 8, /* no driver, no device, no daemon, or it went away */
};

/* One failure. Zeroed it is none; `log` is malloc'ed or NULL. */
struct ckl_fail {
	enum ckl_exit exit;
	const char *stage; /* a literal */
	const char *code;  /* a literal: CUDA_ERROR_..., or a word of ours */
	char message[480];
	char *log; /* of a compiler */
};

/*
 * Record a failure unless one is there already; the first one is reported. Returns a negative errno
 * that fits, so that a function can end with `return ckl_fail(...)`.
 */
int ckl_fail(struct ckl_fail *fail, enum ckl_exit exit, const char *stage, const char *code,
	     const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The same for a request that makes no sense, and for memory of the host. */
int ckl_fail_input(struct ckl_fail *fail, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
int ckl_fail_memory(struct ckl_fail *fail);

/* The same for a call of the driver; running out of memory is CK_EXIT_MEMORY at any stage. */
int ckl_fail_cuda(struct ckl_fail *fail, enum ckl_exit exit, const char *stage, CUresult result,
		  const char *what);

/* Add to its message the reason, unless that is empty. */
void ckl_fail_add(struct ckl_fail *fail, const char *reason);

/* Forget it. */
void ckl_fail_clear(struct ckl_fail *fail);

#endif
