/*
 * client/wire/status.c - see client/wire/status.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "client/link/client.h"
#include "client/wire/command.h"
#include "client/wire/delivery.h"
#include "client/wire/status.h"
#include "rpc/status.h"
#include "util/cancel.h"
#include "util/log.h"
#include "util/process/private_fds.h"
#include "util/spin.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define TRUST_NS 250000000 /* a dead server is noticed after this */
#define CREDIT 16	   /* a query pays for the watches of so many records, */
#define CREDIT_MOST 64	   /* and all of them for so many */

/* Map the memory that the worker writes. NULL: the server is on another host, or declines. */
static void *map_shared_status(void)
{
	ck_status_file_args args = {.size = sizeof(struct ck_status_file)};
	ck_status_file_res res = {0};
	struct ck_private_fd file;
	void *at = MAP_FAILED;

	if (ck_private_fd_memory(&file, "cricket status", sizeof(struct ck_status_file), false) ==
	    0)
		at = mmap(NULL, sizeof(struct ck_status_file), PROT_READ | PROT_WRITE, MAP_SHARED,
			  ck_private_fd_number(&file), 0);
	if (at != MAP_FAILED &&
	    (ckc_call_fd(CK_PROC_status_file, &args, &res, &file) || !res.taken)) {
		munmap(at, sizeof(struct ck_status_file));
		at = MAP_FAILED;
	}
	ck_private_fd_close(&file);
	return at == MAP_FAILED ? NULL : at;
}

static void *map_private_status(struct ckc_client *c)
{
	void *at = mmap(NULL, sizeof(struct ck_status_file), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	if (ckc_delivery_listen(c))
		return at;
	munmap(at, sizeof(struct ck_status_file));
	return NULL;
}

static void open_once(struct ckc_client *c)
{
	struct ckc_watches *w = &c->watches;
	int cancel = ck_lock_uncancelled(&w->lock);

	if (!w->tried) {
		w->file = c->passes_fds ? map_shared_status() : map_private_status(c);
		if (!w->file)
			ck_info("the server does not report completed events: the client asks for "
				"each");
	}
	w->tried = true;
	ck_unlock_uncancelled(&w->lock, cancel);
}

uint64_t ckc_status_number(struct ckc_client *c, uint64_t id)
{
	if (unlikely(!atomic_load(&c->watches.file)))
		open_once(c);
	if (!atomic_load(&c->watches.file))
		return 0;
	return (atomic_fetch_add(&c->watches.numbers, 1) + 1) << CK_STATUS_BITS |
	       (id & (CK_STATUS_WORDS - 1));
}

void ckc_status_asked(struct ckc_client *c, uint64_t ns)
{
	uint64_t mean = atomic_load_explicit(&c->watches.ask_ns, memory_order_relaxed);

	atomic_store_explicit(&c->watches.ask_ns, mean == 0 ? ns : mean - mean / 4 + ns / 4,
			      memory_order_relaxed);
}

/* Near by, the answer to a query is there before news could be. */
static bool queries_are_dear(const struct ckc_client *c)
{
	return atomic_load_explicit(&c->watches.ask_ns, memory_order_relaxed) >=
		       c->watches.dear_ns ||
	       atomic_load_explicit(&c->lanes.round_trip_ns, memory_order_relaxed) >=
		       c->watches.dear_ns;
}

void ckc_status_queried(struct ckc_client *c)
{
	if (atomic_load_explicit(&c->watches.credit, memory_order_relaxed) < CREDIT_MOST &&
	    queries_are_dear(c))
		atomic_fetch_add(&c->watches.credit, CREDIT);
}

uint64_t ckc_status_follow(struct ckc_client *c, uint64_t id)
{
	if (likely(atomic_load_explicit(&c->watches.credit, memory_order_relaxed) <= 0))
		return 0;
	atomic_fetch_sub(&c->watches.credit, 1);
	return ckc_session_offers(c, CK_PROC_event_watch) ? ckc_status_number(c, id) : 0;
}

/* If two threads ask at once, the higher number counts, as on the server. */
void ckc_status_watched(struct ckc_client *c, struct ckc_watch *watch, uint64_t of, uint64_t number)
{
	ck_lock(&c->watches.lock);
	if (number > watch->number) {
		watch->asked_ns = ck_now_ns();
		watch->number = number;
		watch->of = of;
	}
	ck_unlock(&c->watches.lock);
}

void ckc_status_news(struct ckc_client *c, uint64_t number, uint64_t what)
{
	struct ck_status_file *f = atomic_load(&c->watches.file);
	struct ck_status_word *word;

	if (!f)
		return;
	word = &f->word[number & (CK_STATUS_WORDS - 1)];
	atomic_store(&word->batch, what >> 3);
	atomic_store(&word->end, number << 2 | (what & 3));
	if (what & CK_STATUS_CLOSES)
		atomic_store(&f->closed, what >> 3);
}

enum ckc_status ckc_status_look(struct ckc_client *c, const struct ckc_watch *watch, uint64_t of)
{
	struct ck_status_file *f = atomic_load(&c->watches.file);
	const struct ck_status_word *word;
	uint64_t number, end;

	if (!f || watch->of != of)
		return CK_STATUS_UNKNOWN;
	number = watch->number;
	word = &f->word[number & (CK_STATUS_WORDS - 1)];
	end = atomic_load(&word->end);
	if (end >> 2 == number && (end & 3) != CK_STATUS_ENDED)
		return CK_STATUS_UNKNOWN;
	if (end >> 2 == number && atomic_load(&word->batch) <= atomic_load(&f->closed))
		return CK_STATUS_DONE;
	if (ck_now_ns() - watch->asked_ns > TRUST_NS)
		return CK_STATUS_UNKNOWN;
	ckc_command_flush(c); /* a program that asks again and again waits */
	ck_spin_give_way();
	return CK_STATUS_PENDING;
}
