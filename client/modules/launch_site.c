/*
 * client/modules/launch_site.c - see launch.h.
 *
 * Python's functions are looked up in the process, and those that are there must be used with
 * Python's lock (the GIL). A thread that launches from an extension has often released it:
 * `ctypes.CDLL`, and PyTorch. Waiting for it here might never end, for its owner may wait for what
 * this thread holds. So a thread of the client asks for the lock and reads where this one is, which
 * stands still meanwhile; after a second this one withdraws its request.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/modules/launch.h"
#include "client/link/client.h"
#include "cuda/errors.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"
#include "util/wait.h"

CK_LOG_DEFINE("client");

#define FRAMES 4 /* the innermost ones */
#define PATIENCE_NS 1000000000ull
#define TEXT 1024

/* Python's, all of its stable interface; objects are opaque. */
struct python {
	int (*Py_IsInitialized)(void);
	int (*PyGILState_Check)(void);
	int (*PyGILState_Ensure)(void);
	void (*PyGILState_Release)(int);
	void *(*PyGILState_GetThisThreadState)(void);
	void *(*PyThreadState_GetFrame)(void *state); /* since 3.9 */
	void *(*PyObject_GetAttrString)(void *object, const char *name);
	const char *(*PyUnicode_AsUTF8AndSize)(void *text, long *size);
	long (*PyLong_AsLong)(void *number);
	void (*Py_DecRef)(void *object);
	void (*PyErr_Fetch)(void **type, void **value, void **trace);
	void (*PyErr_Restore)(void *type, void *value, void *trace);
	void (*PyErr_Clear)(void);
};

static bool find_symbol(const char *name, void *slot)
{
	void *function = dlsym(RTLD_DEFAULT, name);

	memcpy(slot, &function, sizeof(function));
	return function != NULL;
}

#define FIND(p, name) find_symbol(#name, &(p)->name)

static bool find_python(struct python *p)
{
	return FIND(p, Py_IsInitialized) && FIND(p, PyGILState_Check) &&
	       FIND(p, PyGILState_Ensure) && FIND(p, PyGILState_Release) &&
	       FIND(p, PyGILState_GetThisThreadState) && FIND(p, PyThreadState_GetFrame) &&
	       FIND(p, PyObject_GetAttrString) && FIND(p, PyUnicode_AsUTF8AndSize) &&
	       FIND(p, PyLong_AsLong) && FIND(p, Py_DecRef) && FIND(p, PyErr_Fetch) &&
	       FIND(p, PyErr_Restore) && FIND(p, PyErr_Clear) && p->Py_IsInitialized();
}

/* --- frames. Python's lock is held. */

/* The text in attribute @name of @code; it lives as long as that. "?": there is none. */
static const char *text_of(const struct python *p, void *code, const char *name)
{
	void *value = code ? p->PyObject_GetAttrString(code, name) : NULL;
	const char *text = value ? p->PyUnicode_AsUTF8AndSize(value, NULL) : NULL;

	if (value)
		p->Py_DecRef(value); /* the code has it too */
	return text ? text : "?";
}

/* Put @frame behind @used bytes of @text; the bytes then. */
static size_t put_frame(const struct python *p, void *frame, char text[TEXT], size_t used)
{
	void *code = p->PyObject_GetAttrString(frame, "f_code");
	void *line = p->PyObject_GetAttrString(frame, "f_lineno");
	int n = snprintf(text + used, TEXT - used, "%s%s:%ld in %s", used ? ", called at " : "",
			 text_of(p, code, "co_filename"), line ? p->PyLong_AsLong(line) : 0,
			 text_of(p, code, "co_name"));

	if (code)
		p->Py_DecRef(code);
	if (line)
		p->Py_DecRef(line);
	return ck_min(used + (size_t)ck_max(n, 0), (size_t)TEXT - 1);
}

/* Where the thread of @state is; an empty text: not in Python's code. An exception of the thread
 * stays as it is. */
static void describe_site(const struct python *p, void *state, char text[TEXT])
{
	void *frame = p->PyThreadState_GetFrame(state), *type, *value, *trace, *outer;
	size_t used = 0;

	p->PyErr_Fetch(&type, &value, &trace);
	for (int i = 0; frame && i < FRAMES; i++) {
		used = put_frame(p, frame, text, used);
		outer = p->PyObject_GetAttrString(frame, "f_back");
		p->Py_DecRef(frame);
		frame = outer;
		/* the outermost has None there, which has no code */
		outer = frame ? p->PyObject_GetAttrString(frame, "f_code") : NULL;
		if (frame && !outer) {
			p->Py_DecRef(frame);
			frame = NULL;
		}
		if (outer)
			p->Py_DecRef(outer);
	}
	if (frame)
		p->Py_DecRef(frame);
	p->PyErr_Clear();
	p->PyErr_Restore(type, value, trace);
}

/* --- without the lock */

struct search {
	struct python python;
	void *state; /* of the thread that launched */
	enum { WAITING, READING, GIVEN_UP } _Atomic step;
	atomic_int refs;
	sem_t done;
	char text[TEXT];
};

static void put_search(struct search *s)
{
	if (atomic_fetch_sub(&s->refs, 1) != 1)
		return;
	sem_destroy(&s->done);
	free(s);
}

static void *read_for(void *search)
{
	struct search *s = search;
	int lock = s->python.PyGILState_Ensure(), waiting = WAITING;

	if (atomic_compare_exchange_strong((_Atomic int *)&s->step, &waiting, READING))
		describe_site(&s->python, s->state, s->text);
	s->python.PyGILState_Release(lock);
	sem_post(&s->done);
	put_search(s);
	return NULL;
}

/* Have a thread of the client read, until it is done or the patience ends. */
static void run_search(const struct python *p, void *state, char text[TEXT])
{
	const struct timespec end = ck_until(PATIENCE_NS);
	struct search *s = calloc(1, sizeof(*s));
	int waiting = WAITING, ret = 0;

	if (!s)
		return;
	s->python = *p;
	s->state = state;
	s->refs = 2;
	sem_init(&s->done, 0, 0);
	if (ckc_thread_start(read_for, s) < 0) {
		put_search(s);
		put_search(s);
		return;
	}
	while ((ret = ck_sem_wait_until(&s->done, &end)) < 0 && errno == EINTR)
		;
	/* it reads already: that is soon done */
	if (ret < 0 &&
	    !atomic_compare_exchange_strong((_Atomic int *)&s->step, &waiting, GIVEN_UP)) {
		while ((ret = sem_wait(&s->done)) < 0 && errno == EINTR)
			;
	}
	if (ret == 0)
		memcpy(text, s->text, TEXT);
	else
		ck_debug("where the kernel was launched is not known: Python's lock is not free");
	put_search(s);
}

void ckc_launch_site_report(CUresult err)
{
	char text[TEXT] = "";
	struct python p;
	void *state;

	if (!ck_error_is_fault(err) || !find_python(&p))
		return;
	state = p.PyGILState_GetThisThreadState();
	if (!state)
		return; /* no thread of Python's */
	if (p.PyGILState_Check())
		describe_site(&p, state, text);
	else
		run_search(&p, state, text);
	if (text[0])
		ck_err("the failed kernel was launched at %s", text);
}
