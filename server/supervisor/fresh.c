/*
 * server/supervisor/fresh.c - new connections, whose purpose is not yet known.
 *
 * Their first record is peeked at, not read, so that it can go to a worker with the connection. A
 * partial record is peeked at again after a moment: poll(2) would return at once because of the
 * bytes already there. The same goes for a join whose worker has no room.
 *
 * One peer may have CK_SHARE of them. Beyond that, its oldest one is closed when another arrives.
 * When the list is full, the peer with most connections loses its oldest, so a flood closes its
 * own. Each connection has CK_YOUNG_MS to send its record, because the threads of a program may all
 * connect at once and send when they are scheduled. While all in the list are younger, new ones
 * wait in the listeners' queues.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cricket.h"
#include "rpc/relayed.h"
#include "rpc/tls.h"
#include "server/processes/options.h"
#include "server/processes/peek.h"
#include "server/processes/state.h"
#include "server/supervisor/admit.h"
#include "server/supervisor/answer.h"
#include "server/supervisor/away.h"
#include "server/supervisor/downloads.h"
#include "server/supervisor/fresh.h"
#include "server/supervisor/queue.h"
#include "server/supervisor/fronts.h"
#include "server/supervisor/workers.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_SILENCE_MS 10000 /* for the first record to arrive */
#define CK_AGAIN_MS 20	    /* until a partial record is peeked at again */
#define CK_JOIN_MS 2	    /* until a busy worker is asked again */
#define CK_QUEUE_MS 100	    /* until a client that waits for a session is considered again */
#define CK_YOUNG_MS 100	    /* a connection is safe from eviction this long */
#define CK_SHARE 1024	    /* silent connections of one peer */
#define CK_BUCKETS 4096	    /* hash buckets for counting peers */

struct fresh {
	int fd;
	int64_t deadline; /* in ms of CLOCK_MONOTONIC */
	int64_t again;	  /* earliest time to peek again; 0: when bytes arrive */
	bool ready;	  /* has bytes to read, or is new */
	bool answered;	  /* has had a reply, such as to rpcinfo */
	bool joining;	  /* waits for room at its worker, or for a session: it is not silent */
	int64_t held;	  /* for a session, until this time; 0: it does not wait for one */
	unsigned int bucket;
	struct cks_peer peer;
};

struct cks_fresh_list {
	struct cks_admission admission;
	struct cks_queue queue;
	struct cks_downloads downloads;
	const struct cks_away *away; /* NULL: none is */
	struct cks_fronts *fronts;   /* NULL: no TLS */
	unsigned char seed[16];	     /* so that peers cannot choose their bucket */
	size_t most, count;
	unsigned short silent[CK_BUCKETS]; /* connections of each bucket, without joining ones */
	struct fresh list[CK_FRESH_MAX];   /* oldest first */
};

/* At most half of the descriptors; sessions need the other half. */
static size_t room_for_all(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur / 2 >= CK_FRESH_MAX)
		return CK_FRESH_MAX;
	return ck_max((size_t)files.rlim_cur / 2, (size_t)8);
}

struct cks_fresh_list *cks_fresh_create(struct cks_workers *workers,
					const struct cks_options *options,
					const struct cks_away *away, struct cks_audit *audit,
					struct cks_fronts *fronts)
{
	struct cks_fresh_list *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->admission.workers = workers;
	l->admission.options = options;
	l->admission.audit = audit;
	l->admission.queue = &l->queue;
	l->away = away;
	l->fronts = fronts;
	l->most = room_for_all();
	if (getrandom(l->seed, sizeof(l->seed), 0) != sizeof(l->seed))
		ck_warn("no random bytes: %m");
	return l;
}

const struct cks_queue *cks_fresh_queue(const struct cks_fresh_list *l)
{
	return &l->queue;
}

bool cks_fresh_ended(struct cks_fresh_list *l, pid_t pid)
{
	return l && cks_downloads_ended(&l->downloads, pid);
}

void cks_fresh_reload(struct cks_fresh_list *l)
{
	l->admission.token.known = false;
}

void cks_fresh_drain(struct cks_fresh_list *l)
{
	l->admission.draining = true;
}

void cks_fresh_destroy(struct cks_fresh_list *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->count; i++)
		close(l->list[i].fd);
	free(l);
}

/* Peers rarely share a bucket; if they do, they share its limit too. */
static unsigned int bucket_of(const struct cks_fresh_list *l, const struct cks_peer *peer)
{
	unsigned char text[sizeof(l->seed) + 1 + sizeof(peer->bytes)];
	struct ck_hash hash;

	memcpy(text, l->seed, sizeof(l->seed));
	text[sizeof(l->seed)] = (unsigned char)peer->kind;
	memcpy(text + sizeof(l->seed) + 1, peer->bytes, sizeof(peer->bytes));
	ck_hash(text, sizeof(text), &hash);
	return (hash.bytes[0] | (unsigned int)hash.bytes[1] << 8) % CK_BUCKETS;
}

static void set_joining(struct cks_fresh_list *l, struct fresh *f, bool joining)
{
	if (f->joining != joining)
		l->silent[f->bucket] = (unsigned short)(l->silent[f->bucket] + (joining ? -1 : 1));
	f->joining = joining;
}

static void drop(struct cks_fresh_list *l, size_t i)
{
	set_joining(l, &l->list[i], true); /* no longer counted */
	close(l->list[i].fd);
	l->count--;
	memmove(&l->list[i], &l->list[i + 1], (l->count - i) * sizeof(l->list[0]));
}

/* Index of the oldest connection of @bucket that may be evicted; the count: none. */
static size_t oldest_of(const struct cks_fresh_list *l, unsigned int bucket)
{
	size_t i = 0;

	while (i < l->count && (l->list[i].joining || l->list[i].bucket != bucket))
		i++;
	return i;
}

/* Find the connection to evict from a full list: the oldest of the peer with most; the count:
 * none. */
static size_t find_victim(const struct cks_fresh_list *l)
{
	unsigned int heaviest = 0;
	unsigned short most = 0;

	for (size_t i = 0; i < l->count; i++) {
		unsigned int bucket = l->list[i].bucket;

		if (!l->list[i].joining && l->silent[bucket] > most) {
			heaviest = bucket;
			most = l->silent[bucket];
		}
	}
	return most > 0 ? oldest_of(l, heaviest) : l->count;
}

/* How long it is still safe from eviction, in ms. */
static int64_t young_for(const struct fresh *f)
{
	int64_t born = f->deadline - CK_SILENCE_MS;

	return ck_max(born + CK_YOUNG_MS - ck_now_ms(), (int64_t)0);
}

/* How long until there is room for another one, in ms. */
static int64_t room_in(const struct cks_fresh_list *l)
{
	size_t i;

	if (l->count < l->most)
		return 0;
	i = find_victim(l);
	return i == l->count ? CK_JOIN_MS : young_for(&l->list[i]);
}

bool cks_fresh_has_room(const struct cks_fresh_list *l)
{
	return room_in(l) == 0;
}

static void push_out(struct cks_fresh_list *l, size_t i)
{
	char name[CK_PEER_NAME];

	ck_info("%s has %u connections that say nothing: the oldest is closed",
		cks_peer_name(&l->list[i].peer, name), l->silent[l->list[i].bucket]);
	drop(l, i);
}

void cks_fresh_add(struct cks_fresh_list *l, int fd)
{
	struct fresh f = {.fd = fd, .deadline = ck_now_ms() + CK_SILENCE_MS, .ready = true};
	size_t i;

	cks_peer_of(fd, &f.peer);
	f.bucket = bucket_of(l, &f.peer);
	if (l->silent[f.bucket] >= ck_min((size_t)CK_SHARE, l->most / 2)) {
		i = oldest_of(l, f.bucket);
		if (i < l->count && young_for(&l->list[i]) == 0)
			push_out(l, i);
	}
	if (l->count == l->most)
		push_out(l, find_victim(l));
	l->list[l->count++] = f;
	l->silent[f.bucket]++;
}

int cks_fresh_save(const struct cks_fresh_list *l, struct cks_state *state)
{
	state->fresh = calloc(l->count + 1, sizeof(*state->fresh));
	if (!state->fresh)
		return -ENOMEM;
	for (size_t i = 0; i < l->count; i++)
		state->fresh[i] = (struct cks_state_fresh){.fd = l->list[i].fd,
							   .deadline = l->list[i].deadline,
							   .answered = l->list[i].answered};
	state->fresh_count = l->count;
	return 0;
}

void cks_fresh_adopt(struct cks_fresh_list *l, const struct cks_state_fresh *saved)
{
	if (l->count == l->most) {
		close(saved->fd);
		return;
	}
	cks_fresh_add(l, saved->fd);
	l->list[l->count - 1].deadline = saved->deadline;
	l->list[l->count - 1].answered = saved->answered;
}

size_t cks_fresh_poll(struct cks_fresh_list *l, struct pollfd *fds, int *timeout_ms)
{
	int64_t now = ck_now_ms(), room = room_in(l);

	if (room > 0 && (*timeout_ms < 0 || room < *timeout_ms))
		*timeout_ms = (int)room;
	for (size_t i = 0; i < l->count; i++) {
		const struct fresh *f = &l->list[i];
		int64_t next = f->again ? f->again : f->deadline;
		int64_t wait = next > now ? next - now : 0;

		if (*timeout_ms < 0 || wait < *timeout_ms)
			*timeout_ms = (int)wait;
		fds[i] = (struct pollfd){.fd = f->again ? -1 : f->fd, .events = POLLIN};
	}
	return l->count;
}

void cks_fresh_polled(struct cks_fresh_list *l, const struct pollfd *fds)
{
	for (size_t i = 0; i < l->count; i++)
		l->list[i].ready = fds[i].revents != 0;
}

/* The reply to a link whose session is on another server. */
struct moved {
	ck_link_res res;
	ck_link_moved where;
};

static bool_t code_moved(XDR *xdrs, struct moved *moved)
{
	return xdr_ck_link_res(xdrs, &moved->res) && xdr_ck_link_moved(xdrs, &moved->where);
}

/* Closed without an answer, a client tries again. */
static void answer_away(int fd, enum cks_peek kind, const struct cks_peeked *p, const char *address)
{
	struct moved moved = {.res.status = 3, .where.address = (char *)(uintptr_t)address};

	if (kind == CK_PEEK_LINK && address[0])
		cks_answer(fd, p, (xdrproc_t)code_moved, &moved);
}

/* Pass it to its session. True: keep it and ask the worker again. */
static bool join_session(struct cks_fresh_list *l, struct fresh *f, enum cks_peek kind,
			 const struct cks_peeked *p, int64_t now)
{
	ck_join_res joined = {.status = 1};
	ck_link_res linked = {.status = 1};
	int ret;

	if (l->away && cks_away_find(l->away, p->session)) {
		answer_away(f->fd, kind, p, cks_away_find(l->away, p->session));
		return false;
	}
	ret = cks_workers_join(l->admission.workers, p->session, f->fd);
	set_joining(l, f, ret == -EAGAIN && now < f->deadline);
	f->again = now + CK_JOIN_MS;
	if (ret == 0 || f->joining)
		return f->joining;
	ck_info("a connection joins no session: %s", strerror(-ret));
	if (kind == CK_PEEK_LINK)
		cks_answer(f->fd, p, (xdrproc_t)xdr_ck_link_res, &linked);
	else
		cks_answer(f->fd, p, (xdrproc_t)xdr_ck_join_res, &joined);
	return false;
}

/* Its bytes come decrypted from now on, over another descriptor. It stays what it was for all limits. True: keep it. */
static bool unwrap(struct cks_fresh_list *l, struct fresh *f, int64_t now)
{
	int plain, ret;

	if (ck_relayed_get(f->fd, NULL)) {
		ck_info("a connection that wants TLS inside of TLS: closed");
		return false;
	}
	ret = cks_fronts_pass(l->fronts, f->fd, &plain);
	if (ret == -EAGAIN) {
		f->again = now + CK_JOIN_MS;
		return true;
	}
	if (ret < 0) {
		ck_warn("a connection gets no TLS: %s", strerror(-ret));
		return false;
	}
	close(f->fd);
	f->fd = plain;
	return true;
}

/* A further connection must be as safe as the first one. */
static bool lacks_tls(const struct cks_fresh_list *l, const struct fresh *f, enum cks_peek kind)
{
	char name[CK_PEER_NAME];

	if ((kind != CK_PEEK_JOIN && kind != CK_PEEK_LINK) ||
	    !cks_judge_wants_tls(l->admission.options, f->fd))
		return false;
	ck_warn("%s: a connection without TLS wants to join a session: closed (--tls)",
		cks_peer_name(&f->peer, name));
	return true;
}

/* Has the peer closed its side? Bytes in the buffer hide that from recv. */
static bool hung_up(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLRDHUP};

	return poll(&p, 1, 0) > 0;
}

/* Admit a client, or hold it for a while if it waits for a session. True: keep it. */
static bool admit(struct cks_fresh_list *l, struct fresh *f, const unsigned char *bytes,
		  const struct cks_peeked *p, int64_t now)
{
	enum cks_turn turn = f->held && now >= f->held ? CK_TURN_LAST : CK_TURN_HOLD;

	if (f->held && hung_up(f->fd))
		turn = CK_TURN_GONE;
	if (!cks_admit(&l->admission, f->fd, &f->peer, bytes, p, turn))
		return false;
	set_joining(l, f, true);
	if (!f->held) {
		f->held = now + CK_QUEUE_HOLD_MS;
		f->deadline = f->held + CK_SILENCE_MS;
	}
	f->again = now + CK_QUEUE_MS;
	return true;
}

/* Peek at a connection and act on its first record; true: keep it. */
static bool look(struct cks_fresh_list *l, struct fresh *f, int64_t now)
{
	unsigned char bytes[CK_PEEK_MAX];
	struct cks_peeked p;
	enum cks_peek kind;
	ssize_t n = recv(f->fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);

	f->again = 0;
	f->ready = false;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0) {
		ck_debug("a connection ends %s", f->answered ? "after its answer" : "unheard");
		return false;
	}
	kind = cks_peek(bytes, (size_t)n, &p);
	if (lacks_tls(l, f, kind))
		return false;
	if (kind == CK_PEEK_TLS && !l->fronts)
		kind = bytes[0] == CK_TLS_FIRST_BYTE ? CK_PEEK_GARBAGE : CK_PEEK_NULL;
	switch (kind) {
	case CK_PEEK_TLS:
		return unwrap(l, f, now);
	case CK_PEEK_MORE:
		f->again = now + CK_AGAIN_MS;
		return !hung_up(f->fd);
	case CK_PEEK_GARBAGE:
		ck_info("a connection that speaks no RPC: closed");
		return false;
	case CK_PEEK_HELLO:
		return admit(l, f, bytes, &p, now);
	case CK_PEEK_JOIN:
	case CK_PEEK_LINK:
		return join_session(l, f, kind, &p, now) && !hung_up(f->fd);
	case CK_PEEK_FILES:
		cks_downloads_serve(&l->downloads, &l->admission, f->fd, &f->peer, bytes, &p);
		return false;
	default:
		f->answered = true;
		return cks_answer_small(f->fd, kind, &p);
	}
}

/* Is it time to peek: have bytes arrived, or has the pause ended? */
static bool is_due(const struct fresh *f, int64_t now)
{
	return f->again ? f->again <= now : f->ready;
}

void cks_fresh_run(struct cks_fresh_list *l)
{
	int64_t now = ck_now_ms();
	size_t i = 0;

	cks_queue_expire(&l->queue, now);
	while (i < l->count) {
		struct fresh *f = &l->list[i];
		bool keep = !is_due(f, now) || look(l, f, now);

		if (keep && now >= f->deadline) {
			ck_info("a connection that said nothing for %d s: closed",
				CK_SILENCE_MS / 1000);
			keep = false;
		}
		if (keep)
			i++;
		else
			drop(l, i);
	}
}
