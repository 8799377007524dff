/*
 * client/link/reconnect.c - see client/link/reconnect.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/link/reconnect.h"
#include "client/link/reconnect_link.h"
#include "client/link/repair.h"
#include "rpc/links.h"
#include "util/env.h"
#include "util/log.h"
#include "util/process/process_limits.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("client");

#define FIRST 0		  /* number of the channel of the hello */
#define PAUSE_FIRST_MS 20 /* between two attempts; doubled each time */
#define PAUSE_LAST_MS 1000
#define TELL_MS 1000	  /* a shorter cut is not worth a line */
#define LISTEN_NS 1000000 /* between two looks at new bytes, while they come fast */
#define IDLE_MS 2000	  /* a program may have closed the descriptors that it did not open */
#define BYE_MS 500
#define BACK_MS 5000	/* for the reply that a program from files has waited for */
#define REPLACE_MOST 5	/* attempts to replace relayed connections */
#define REPLACE_MS 1000 /* between two of them */

/* A channel's first reply is read when frames have been sent behind the link: a server that stands
 * still may take long. */
static int accept_first(void *client, struct ck_chan *connection)
{
	char moved[CK_MOVED_MAX + 1]; /* the keeper asks again, and gets it too */
	ck_link_res res = {.status = 1};

	(void)client;
	return ckc_reconnect_link_answer(connection, &res, moved);
}

int ckc_reconnect_link(struct ckc_client *c, ck_lane_kind kind, struct ck_chan *connection,
		       struct ck_chan **chan)
{
	struct ckc_keeping *k = &c->keeping;
	struct ck_link *link;
	int ret = ck_links_open(k->links, c->connection.joins, atomic_fetch_add(&k->numbers, 1),
				kind, &link);

	if (ret < 0) {
		ck_chan_close(connection);
		return ret;
	}
	*chan = link->chan;
	ret = connection ? ckc_reconnect_link_send(c, link, connection, 0) : -ENOTCONN;
	if (ret == 0)
		ret = ck_links_attach(k->links, link, connection, 0, true,
				      ckc_link_needs_listener(link));
	else
		ck_chan_close(connection);
	ck_links_put(k->links, link);
	if (ret < 0)
		ck_links_wake(k->links); /* the keeper makes one */
	return 0;
}

bool ckc_reconnect_misses(const struct ckc_client *c)
{
	const struct ckc_keeping *k = &c->keeping;

	return k->told || k->held || (k->back && ck_now_ms() - k->back < BACK_MS);
}

static void tell_missing(struct ckc_client *c, int error)
{
	struct ckc_keeping *k = &c->keeping;
	int64_t cut = ck_now_ms() - k->since;

	if (k->told || cut < TELL_MS)
		return;
	k->told = true;
	if (k->heard)
		ck_warn("the session on the GPU server at %s is being moved or written: CUDA calls "
			"wait",
			c->connection.address);
	else
		ck_warn("the connection to the GPU server at %s is cut (%s): CUDA calls wait, for "
			"at most %u s",
			c->connection.address, error ? strerror(-error) : "no answer", k->seconds);
}

static void tell_back(struct ckc_client *c)
{
	struct ckc_keeping *k = &c->keeping;

	if (k->told)
		ck_warn("the connection to the GPU server at %s is back after %lld s",
			c->connection.address, (long long)(ck_now_ms() - k->since + 500) / 1000);
	if (k->held)
		k->back = ck_now_ms();
	k->told = k->held = false;
	k->since = k->heard = 0;
	k->pause_ms = PAUSE_FIRST_MS;
}

/* Has the program closed the descriptors that watch the connections? Then the session is lost:
 * other connections would be closed next. */
static bool is_unwatched(struct ckc_client *c)
{
	if (!ck_links_unwatched(c->keeping.links))
		return false;
	c->keeping.lost(c, "the program has closed its connections");
	return true;
}

/* Is the time over, or has the server ended the session? Then it is lost. */
static bool is_lost(struct ckc_client *c, int error)
{
	struct ckc_keeping *k = &c->keeping;
	/* a session that is about to leave is not lost, however long that takes */
	bool late = ck_now_ms() - ck_max(k->since, k->heard) >= (int64_t)k->seconds * 1000;

	if (is_unwatched(c))
		return true;
	if (error == -ENOENT && k->arriving)
		error = -EAGAIN;
	if (error == -ENOENT)
		c->keeping.lost(c, "it has ended the session");
	else if (error == -ESTALE)
		c->keeping.lost(c, "its session is an older one, from a checkpoint");
	else if (late)
		c->keeping.lost(c, "no connection in the time of CRICKET_RESUME");
	return error == -ENOENT || error == -ESTALE || late;
}

/* Repair broken links. Returns the milliseconds until the next attempt; -1: nothing is. */
static int repair_links(struct ckc_client *c)
{
	struct ckc_keeping *k = &c->keeping;
	struct ckc_repair r = {.client = c};
	int pause;

	r.count = ck_links_broken(k->links, r.links, CK_DIAL_MAX);
	if (r.count == 0) {
		tell_back(c);
		return -1;
	}
	if (k->since == 0)
		k->since = ck_now_ms();
	ckc_repair_attempt(&r);
	if (r.held) {
		k->since = ck_now_ms();
		k->pause_ms = PAUSE_FIRST_MS;
		return PAUSE_FIRST_MS;
	}
	if (r.leaves)
		k->heard = ck_now_ms();
	if (is_lost(c, r.error))
		return -1;
	tell_missing(c, r.error);
	if (r.relayed) {
		k->replaces = REPLACE_MOST;
		k->replace_at = ck_now_ms() + REPLACE_MS;
	}
	if (r.error == 0)
		return 0; /* there may be more */
	pause = k->pause_ms;
	k->pause_ms = pause * 2 < PAUSE_LAST_MS ? pause * 2 : PAUSE_LAST_MS;
	return pause;
}

/* Give the channels that a process relays other connections, although their own are not broken.
 * Returns as repair_links, which goes on if this fails half-way. */
static int replace_relayed(struct ckc_client *c)
{
	struct ckc_keeping *k = &c->keeping;
	struct ckc_repair r = {.client = c};

	if (k->replaces == 0 || ck_now_ms() < k->replace_at)
		return -1;
	r.count = ck_links_relayed(k->links, r.links, CK_DIAL_MAX);
	if (r.count == 0) { /* they are replaced, or their threads have ended */
		k->replaces = 0;
		return -1;
	}
	ckc_repair_attempt(&r);
	k->replace_at = ck_now_ms() + REPLACE_MS;
	k->replaces--;
	return r.error == 0 ? -1 : 0;
}

void ckc_reconnect_replace_first(struct ckc_client *c)
{
	struct ck_link *link = ckc_keeps(c) ? ck_links_find(c->keeping.links, FIRST) : NULL;

	if (!link)
		return;
	link->relayed = true;
	ck_links_put(c->keeping.links, link);
	c->keeping.replaces = REPLACE_MOST;
	ck_links_wake(c->keeping.links);
}

static bool is_over(struct ckc_client *c)
{
	struct ck_links_state state;

	if (c->state == CK_STATE_LOST || c->keeping.leaving)
		return true;
	if (is_unwatched(c))
		return true;
	ck_links_state(c->keeping.links, &state);
	if (!(state.ended & 1u << CK_LANE_COMMAND))
		return false;
	c->keeping.lost(c, "it has closed the connection");
	return true;
}

/* The program's other threads may still make calls. */
static void leave(struct ckc_client *c)
{
	int ready = CK_STATE_READY;

	if (atomic_compare_exchange_strong(&c->state, &ready, CK_STATE_EXITING))
		ckc_reconnect_bye(c);
}

static void watch(struct ckc_client *c)
{
	const struct timespec listen = {.tv_nsec = LISTEN_NS};
	int64_t next = -1;
	int ret;

	while (!is_over(c)) {
		int64_t now = ck_now_ms();

		if (c->keeping.leaves)
			leave(c);
		else if (next < 0 || now >= next) {
			int ms = repair_links(c);

			if (ms < 0)
				ms = replace_relayed(c);
			next = ms < 0 ? -1 : ck_now_ms() + ms;
		}
		now = ck_now_ms();
		/* the clock of the machine that has made the program from files may be behind */
		next = ck_min(next, now + PAUSE_LAST_MS);
		ret = ck_links_handle(c->keeping.links, next < 0     ? IDLE_MS
							: next > now ? (int)(next - now)
								     : 0);
		if (ret < 0 && !is_unwatched(c))
			c->keeping.lost(c, strerror(-ret));
		if (ret > 0)
			nanosleep(&listen, NULL);
	}
}

static void *run_keeper(void *client)
{
	struct ckc_client *c = client;

	watch(c);
	c->keeping.left = true;
	return NULL;
}

/* --- for the session */

unsigned int ckc_reconnect_seconds(void)
{
	uint64_t seconds = ck_env_seconds("CRICKET_RESUME");

	return seconds < 86400 * 7 ? (unsigned int)seconds : 86400 * 7;
}

static void tell_lack(const struct ckc_client *c, const char *what, int ret)
{
	char why[CK_LIMIT_TEXT];

	ck_err("no session with the GPU server at %s: cannot make %s: %s", c->connection.address,
	       what, ck_limit_text(ret, why));
}

int ckc_reconnect_begin(struct ckc_client *c, struct ck_chan **chan,
			void (*lost)(struct ckc_client *c, const char *why))
{
	struct ckc_keeping *k = &c->keeping;
	struct ck_chan *connection = *chan;
	struct ck_link *link;
	int ret = ck_links_create(accept_first, c, true, &k->links);

	if (ret < 0) {
		tell_lack(c, "descriptors that watch the connections", ret);
		return ret;
	}
	k->process = getpid();
	k->lost = lost;
	k->seconds = ck_min(c->offers.keep, ckc_reconnect_seconds()); /* whatever the server says */
	k->pause_ms = PAUSE_FIRST_MS;
	atomic_store(&k->numbers, FIRST + 1);
	ret = ck_links_open(k->links, ck_chan_peer(connection), FIRST, CK_LANE_CALL, &link);
	if (ret < 0)
		return ret;
	*chan = link->chan;
	ret = ck_links_attach(k->links, link, connection, 0, false, false);
	ck_links_put(k->links, link);
	if (ret == 0) {
		ret = ckc_thread_start(run_keeper, c);
		if (ret < 0)
			tell_lack(c, "a thread that watches the connections", ret);
	}
	return ret;
}

void ckc_reconnect_stop(struct ckc_client *c)
{
	if (ckc_keeps(c))
		ck_links_wake(c->keeping.links);
}

void ckc_reconnect_bye(struct ckc_client *c)
{
	c->keeping.leaving = true;
	if (ckc_keeps(c) && c->command.chan)
		ck_lasting_bye(c->command.chan, BYE_MS);
}

static bool is_of_this_process(const struct ckc_client *c)
{
	return ckc_keeps(c) && c->keeping.process == getpid();
}

void ckc_reconnect_leave(struct ckc_client *c)
{
	if (!is_of_this_process(c))
		return;
	c->keeping.leaves = true;
	ck_links_wake(c->keeping.links);
}

bool ckc_reconnect_left(const struct ckc_client *c)
{
	return !is_of_this_process(c) || c->keeping.left;
}

void ckc_reconnect_forked(struct ckc_client *c)
{
	if (ckc_keeps(c))
		ck_links_forked(c->keeping.links);
}

void ckc_reconnect_forget(struct ckc_client *c)
{
	/* its channels are closed; a thread that held the lock is not in this process */
	if (ckc_keeps(c))
		ck_links_destroy(c->keeping.links);
	c->keeping.links = NULL;
}
