/*
 * client/managed/pages.h - page states, for the files that change them: managed.c (work about to
 * start, ranges), page_access.c (accesses by the program) and variable.c (__managed__ variables).
 * All other files use client/managed/managed.h.
 *
 * One lock, the outermost of the client, guards everything here.
 */
#ifndef CK_CLIENT_MANAGED_PAGES_H
#define CK_CLIENT_MANAGED_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/managed/managed.h"
#include "client/managed/shadow.h"
#include "client/managed/state.h"
#include "client/managed/window.h"
#include "util/range.h"

enum ckc_page {
	CK_PAGE_INVALID, /* newest on the device */
	CK_PAGE_CLEAN,
	CK_PAGE_DIRTY,
};

/* A piece of device memory. */
struct ckc_part {
	uint64_t from, to;
};

/* A range of pages tracked together. */
struct ckc_managed {
	uint64_t base;
	size_t pages;
	struct ckc_context *context;
	uint64_t ctx;
	unsigned int attach, attached_first;
	uint64_t stream; /* SINGLE: its stream; HOST: of the attach call */
	uint64_t since;	 /* the last command before the attach call */
	size_t lo, hi;	 /* all pages valid here are in [lo, hi); shadowed: all dirty ones */
	bool dirty;	 /* some page is dirty */
	bool reading;	 /* the device may still read pages that are valid here */
	bool lost;	 /* the device's pages can never be fetched again */
	bool raises;	 /* an access to an invalid page raises SIGBUS */
	uint64_t quiet;	 /* the last command when the device was waited for */
	uint64_t sent;	 /* the last command that has sent pages */
	uint8_t *state;
	struct ckc_shadow *shadow;	     /* see shadow.h; NULL: none */
	char *alias;			     /* the client's view of the pages */
	struct ckc_part *parts;		     /* variables in the pages */
	unsigned int users;		     /* their number; 0: the range is in the window */
	void (*shut)(struct ckc_managed *m); /* of variables: give back the range's pages */
};

/*
 * Create the stream that transfers pages of @context, before there are pages, and wait for it. A
 * host function that has written pages sends them without waiting for commands, and the server may
 * be unable to execute a command until that function returns.
 */
CUresult ckc_pages_prepare(struct ckc_context *context);
/* The same for a caller that makes a call next: that waits for the stream, too. */
CUresult ckc_pages_announce(struct ckc_context *context);
/* The stream's id, for other copies that wait for no other stream. Takes the lock. */
CUresult ckc_pages_stream(struct ckc_context *context, uint64_t *id);

/* Use the rest of this file with the lock held. */
static inline struct ckc_pages *ckc_pages_current(void)
{
	return &ckc_client_current()->managed->pages;
}

static inline struct ckc_pages *ckc_pages_of_context(const struct ckc_context *context)
{
	return &context->client->managed->pages;
}

/* Add a range with all pages in @state. */
CUresult ckc_pages_insert(struct ckc_managed *m, enum ckc_page state);
/*
 * Let the calls of this thread wait for no commands but those that have sent pages of @m, and, as
 * no function is part of such a wait, those that have waited. A host function may need the lock,
 * and all other commands may wait for it. Returns the value for the end.
 */
bool ckc_pages_aside(const struct ckc_managed *m);
void ckc_pages_aside_end(bool was);
/* Commands have sent pages of @m. */
void ckc_pages_sent(struct ckc_managed *m);
/* Set the stream to which the range is attached. */
void ckc_pages_attach(struct ckc_managed *m, unsigned int attach, uint64_t stream);
/* Remove a range and free it. */
void ckc_pages_drop(struct ckc_managed *m);
/* The range that contains @address; NULL: not tracked. */
struct ckc_managed *ckc_pages_of(const struct ckc_pages *pages, uint64_t address);

static inline uint64_t ckc_page_address(const struct ckc_managed *m, size_t page)
{
	return m->base + page * CK_PAGE;
}

/* The pages of @m that contain [address, address+size): from @first up to, not including, @last. */
static inline size_t ckc_page_first(const struct ckc_managed *m, uint64_t address)
{
	return (address - m->base) / CK_PAGE;
}

static inline size_t ckc_page_last(const struct ckc_managed *m, uint64_t address, size_t size)
{
	return ck_min(m->pages, (address + size - m->base + CK_PAGE - 1) / CK_PAGE);
}

/* Is any page valid here, or of shadowed memory: is any writable? */
static inline bool ckc_pages_active(const struct ckc_managed *m)
{
	return m->lo < m->hi;
}

/* The first page from @page on that is (or is not) in @state; @last if there is none. */
size_t ckc_pages_skip(const struct ckc_managed *m, size_t page, size_t last, enum ckc_page state,
		      bool is);

/* Give the program access @prot, of mprotect(2), to pages [first, last). -1 and errno: they, or
 * some of them, are as before. */
int ckc_pages_protect(const struct ckc_managed *m, size_t first, size_t last, int prot);
/* Mark pages [first, last) valid here, in @state. */
void ckc_pages_mark(struct ckc_managed *m, size_t first, size_t last, enum ckc_page state);
#define CK_PAGE_PIECE ((size_t)64 << 20) /* maximal bytes per message */
/*
 * The device's bytes in pages [first, last): the @index-th extent of them as (address, size).
 * Returns its address in the alias; NULL: no more.
 */
void *ckc_pages_bytes(const struct ckc_managed *m, size_t first, size_t last, unsigned int *index,
		      uint64_t *at, size_t *size);
/* The device's pages can never be fetched again, for the reason @err. Valid pages stay usable;
 * what accesses to the others do, CRICKET_LOST says. */
void ckc_pages_lose(struct ckc_managed *m, CUresult err);

/* Fetch the invalid pages of [first, last) and open them for reading. */
void ckc_pages_fetch(struct ckc_managed *m, size_t first, size_t last);
/* Make the valid pages of [first, last) writable. */
void ckc_pages_mark_dirty(struct ckc_managed *m, size_t first, size_t last);

/* --- page_release.c */
/*
 * The device is about to read pages of [first, last), or to write them, which makes them invalid,
 * except where changes are sent by the server (shadow.h). Pages that the device may write and that
 * cannot be protected, for lack of mappings, end the session: no later call succeeds.
 */
void ckc_pages_release(struct ckc_managed *m, size_t first, size_t last, bool write);
/*
 * Clean pages of attached memory may have been fetched before a kernel in another stream wrote
 * them. The program has learned that work is done: fetch them again when they are accessed. Pages
 * that the program has written stay valid.
 */
void ckc_pages_invalidate_clean(struct ckc_managed *m);
/* --- page_access.c */
/*
 * Take the lock and find the range of @address. If a page must be fetched, or is to be written
 * while the device may still read it, wait until the device does no work on the range; with
 * @newest, also for shadowed memory, whose pages are valid all the time. NULL, without the lock:
 * not tracked.
 */
struct ckc_managed *ckc_pages_lock_idle(uint64_t address, size_t size, bool write, bool inside,
					bool newest);
/* Send messages to the session that tracks @address; returns the one before. */
struct ckc_client *ckc_pages_route(uint64_t address);
/*
 * Inside another call: fetch the invalid pages of a range, and make them writable with @write.
 * Returns the alias; @other if the range is not tracked; NULL if some pages are lost, or cannot be
 * made writable. @newest: the bytes of all earlier work are needed, for an access in its order.
 * Takes the lock.
 */
char *ckc_pages_reach(uint64_t address, size_t size, bool write, char *other, bool newest);

#endif
