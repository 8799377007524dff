/*
 * server/door/new_connection.c - new connections, whose purpose is not yet known.
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
#include <unistd.h>

#include "cricket.h"
#include "server/door/new_connection.h"
#include "server/door/new_connection_part.h"
#include "server/options/options.h"
#include "server/processes/state.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_SHARE 1024 /* silent connections of one peer */

/* At most half of the descriptors; sessions need the other half. */
static size_t room_for_all(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur / 2 >= CK_NEW_CONNECTION_MAX)
		return CK_NEW_CONNECTION_MAX;
	return ck_max((size_t)files.rlim_cur / 2, (size_t)8);
}

struct cks_new_connection_list *cks_new_connection_create(struct cks_workers *workers,
							  const struct cks_options *options,
							  const struct cks_absent_sessions *away,
							  struct cks_audit *audit,
							  struct cks_front_process *fronts)
{
	struct cks_new_connection_list *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->admission.workers = workers;
	l->admission.options = options;
	l->admission.audit = audit;
	l->admission.queue = &l->queue;
	l->admission.offers = &l->offers;
	l->away = away;
	l->fronts = fronts;
	l->most = room_for_all();
	if (getrandom(l->seed, sizeof(l->seed), 0) != sizeof(l->seed))
		ck_warn("no random bytes: %m");
	return l;
}

void cks_new_connection_driver(struct cks_new_connection_list *l, const char *driver)
{
	l->offers.driver = driver;
}

const struct cks_queue *cks_new_connection_queue(const struct cks_new_connection_list *l)
{
	return &l->queue;
}

bool cks_new_connection_ended(struct cks_new_connection_list *l, pid_t pid)
{
	return l && (cks_downloads_ended(&l->downloads, pid) || cks_offers_ended(&l->offers, pid));
}

int cks_new_connection_reload(struct cks_new_connection_list *l, char why[CK_TOKEN_WHY])
{
	const char *file = l->admission.options->token_file;

	l->admission.token.known = false;
	return file ? cks_token_read(file, &l->admission.token, why) : 0;
}

void cks_new_connection_drain(struct cks_new_connection_list *l)
{
	l->admission.draining = true;
}

void cks_new_connection_destroy(struct cks_new_connection_list *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->count; i++)
		close(l->list[i].fd);
	free(l);
}

/* Peers rarely share a bucket; if they do, they share its limit too. */
static unsigned int bucket_of(const struct cks_new_connection_list *l, const struct cks_peer *peer)
{
	unsigned char text[sizeof(l->seed) + 1 + sizeof(peer->bytes)];
	struct ck_hash hash;

	memcpy(text, l->seed, sizeof(l->seed));
	text[sizeof(l->seed)] = (unsigned char)peer->kind;
	memcpy(text + sizeof(l->seed) + 1, peer->bytes, sizeof(peer->bytes));
	ck_hash(text, sizeof(text), &hash);
	return (hash.bytes[0] | (unsigned int)hash.bytes[1] << 8) % CK_BUCKETS;
}

void cks_new_connection_set_joining(struct cks_new_connection_list *l, struct cks_new_connection *f,
				    bool joining)
{
	if (f->joining != joining)
		l->silent[f->bucket] = (unsigned short)(l->silent[f->bucket] + (joining ? -1 : 1));
	f->joining = joining;
}

static void drop_connection(struct cks_new_connection_list *l, size_t i)
{
	cks_new_connection_set_joining(l, &l->list[i], true); /* no longer counted */
	close(l->list[i].fd);
	l->count--;
	memmove(&l->list[i], &l->list[i + 1], (l->count - i) * sizeof(l->list[0]));
}

/* Index of the oldest connection of @bucket that may be evicted; the count: none. Those whose
 * clients have shown that they go on are the last. */
static size_t oldest_of(const struct cks_new_connection_list *l, unsigned int bucket)
{
	size_t oldest = l->count;

	for (size_t i = 0; i < l->count; i++) {
		const struct cks_new_connection *f = &l->list[i];

		if (f->joining || f->bucket != bucket)
			continue;
		if (f->stage < CK_STAGE_ANSWERED)
			return i;
		oldest = ck_min(oldest, i);
	}
	return oldest;
}

/* Find the connection to evict from a full list: the oldest of the peer with most; the count:
 * none. */
static size_t find_victim(const struct cks_new_connection_list *l)
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
static int64_t young_for(const struct cks_new_connection *f)
{
	return ck_max(f->born + CK_YOUNG_MS - ck_now_ms(), (int64_t)0);
}

/* How long until there is room for another one, in ms. */
static int64_t room_in(const struct cks_new_connection_list *l)
{
	size_t i;

	if (l->count < l->most)
		return 0;
	i = find_victim(l);
	return i == l->count ? CK_JOIN_MS : young_for(&l->list[i]);
}

bool cks_new_connection_has_room(const struct cks_new_connection_list *l)
{
	return room_in(l) == 0;
}

static void push_out(struct cks_new_connection_list *l, size_t i)
{
	char name[CK_PEER_NAME];

	ck_info("%s has %u silent connections: the oldest is closed",
		cks_peer_name(&l->list[i].peer, name), l->silent[l->list[i].bucket]);
	drop_connection(l, i);
}

void cks_new_connection_add(struct cks_new_connection_list *l, int fd)
{
	int64_t now = ck_now_ms();
	struct cks_new_connection f = {
		.fd = fd, .born = now, .deadline = now + CK_SILENCE_MS, .ready = true};
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

int cks_new_connection_save(const struct cks_new_connection_list *l, struct cks_state *state)
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

void cks_new_connection_adopt(struct cks_new_connection_list *l,
			      const struct cks_state_fresh *saved)
{
	if (l->count == l->most) {
		close(saved->fd);
		return;
	}
	cks_new_connection_add(l, saved->fd);
	l->list[l->count - 1].deadline = saved->deadline;
	l->list[l->count - 1].answered = saved->answered;
}

size_t cks_new_connection_poll(struct cks_new_connection_list *l, struct pollfd *fds,
			       int *timeout_ms)
{
	int64_t now = ck_now_ms(), room = room_in(l);

	if (room > 0)
		ck_poll_sooner(timeout_ms, room);
	for (size_t i = 0; i < l->count; i++) {
		const struct cks_new_connection *f = &l->list[i];
		int64_t next = f->again ? f->again : f->deadline;

		ck_poll_sooner(timeout_ms, ck_max(next - now, (int64_t)0));
		fds[i] = (struct pollfd){.fd = f->again ? -1 : f->fd, .events = POLLIN};
	}
	return l->count;
}

void cks_new_connection_polled(struct cks_new_connection_list *l, const struct pollfd *fds)
{
	for (size_t i = 0; i < l->count; i++)
		l->list[i].ready = fds[i].revents != 0;
}

/* Is it time to peek: have bytes arrived, or has the pause ended? */
static bool is_due(const struct cks_new_connection *f, int64_t now)
{
	return f->again ? f->again <= now : f->ready;
}

void cks_new_connection_run(struct cks_new_connection_list *l)
{
	int64_t now = ck_now_ms();
	size_t i = 0;

	cks_queue_expire(&l->queue, now);
	while (i < l->count) {
		struct cks_new_connection *f = &l->list[i];
		bool keep = !is_due(f, now) || cks_new_connection_look(l, f, now);

		if (keep && now >= f->deadline) {
			if (f->held)
				ck_info("a connection gets no answer in time: closed");
			else
				ck_info("a connection was silent for %d s: closed",
					CK_SILENCE_MS / 1000);
			keep = false;
		}
		if (keep)
			i++;
		else
			drop_connection(l, i);
	}
}
