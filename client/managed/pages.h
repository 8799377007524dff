/*
 * client/managed/pages.h - the states of pages that program and device both use, for the files that
 * change them: managed.c (what is about to run, ranges), touch.c (what the program touches) and
 * variable.c (__managed__ variables). Everyone else uses client/managed/managed.h.
 *
 * All is under one lock, the outermost of the client.
 */
#ifndef CK_CLIENT_MANAGED_PAGES_H
#define CK_CLIENT_MANAGED_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/managed/managed.h"
#include "client/managed/state.h"
#include "client/managed/window.h"
#include "util/range.h"

enum ck_page {
	CK_PAGE_INVALID, /* newest on the device */
	CK_PAGE_CLEAN,
	CK_PAGE_DIRTY,
};

/* Bytes of the device. */
struct ck_part {
	uint64_t from, to;
};

/* Pages that are tracked together. */
struct ck_managed {
	uint64_t base;
	size_t pages;
	struct ck_context *context;
	uint64_t ctx;
	unsigned int attach, attached_first;
	uint64_t stream;	/* SINGLE: its stream; HOST: where it was attached; else 0 */
	size_t lo, hi;		/* no page outside of [lo, hi) is valid here */
	bool dirty;		/* some page is */
	bool reading;		/* the device may yet read pages that are valid here */
	bool lost;		/* the device's pages are out of reach for good: */
	bool raises;		/* a touch of an invalid one raises SIGBUS */
	uint64_t quiet;		/* the last command when we have waited for the device */
	uint8_t *state;
	char *alias;		/* where we see the pages */
	struct ck_part *parts;	/* variables in the pages, */
	unsigned int users;	/* so many; 0: the range is of the window, all of it */
	void (*shut)(struct ck_managed *m); /* of variables: give back the pages of the range */
};

/*
 * The stream on which pages of @context travel, made before there are any, and there when this
 * returns: a host function that has written pages sends them without waiting for any command, and
 * the server may be unable to carry one out until that function is done.
 */
CUresult ck_pages_prepare(struct ck_context *context);

/* The rest of this file is used with the lock held. */
static inline struct ck_pages *ck_pages_current(void)
{
	return &ck_client_current()->managed->pages;
}

static inline struct ck_pages *ck_pages_of_context(const struct ck_context *context)
{
	return &context->client->managed->pages;
}

/* Enter a range whose pages are all in @state. */
CUresult ck_pages_insert(struct ck_managed *m, enum ck_page state);
/* Take it out, and free it; with @keep, its pages are fetched and opened. */
void ck_pages_drop(struct ck_managed *m, bool keep);
/* What holds @address; NULL: that is not tracked. */
struct ck_managed *ck_pages_of(const struct ck_pages *pages, uint64_t address);

static inline uint64_t ck_page_address(const struct ck_managed *m, size_t page)
{
	return m->base + page * CK_PAGE;
}

/* Pages of @m that hold [address, address+size): those from @first on, before @last. */
static inline size_t ck_page_first(const struct ck_managed *m, uint64_t address)
{
	return (address - m->base) / CK_PAGE;
}

static inline size_t ck_page_last(const struct ck_managed *m, uint64_t address, size_t size)
{
	return ck_min(m->pages, (address + size - m->base + CK_PAGE - 1) / CK_PAGE);
}

/* Is any page valid here? */
static inline bool ck_pages_active(const struct ck_managed *m)
{
	return m->lo < m->hi;
}

/* The first page from @page on that is (or is not) in @state, or @last. */
size_t ck_pages_skip(const struct ck_managed *m, size_t page, size_t last, enum ck_page state,
		     bool is);

/* The device is about to read pages of [first, last), or to write them: then none stays valid. */
void ck_pages_surrender(struct ck_managed *m, size_t first, size_t last, bool write);
/* Fetch the invalid pages of [first, last) and open them for reading. */
void ck_pages_fetch(struct ck_managed *m, size_t first, size_t last);
/* Open the valid pages of [first, last) for writing. */
void ck_pages_soil(struct ck_managed *m, size_t first, size_t last);

/* --- touch.c */
/*
 * Takes the lock. The range of @address with the lock held, and no work of the device on it, when
 * some page is to be fetched, or written while the device may yet read it; NULL, without the lock:
 * not tracked.
 */
struct ck_managed *ck_pages_settle(uint64_t address, size_t size, bool write, bool inside);

/* --- variable.c */

#endif
