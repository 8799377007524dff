/*
 * server/front/handshakes.c - see handshakes.h.
 *
 * A client that begins handshakes, and does not end them, costs memory and no process. The relay's
 * end is named after the client before the server can hear from it (rpc/relayed.h). When the
 * supervisor closes its end, the handshake is given up: the supervisor has the time limit.
 *
 * The server's part of a handshake costs half a millisecond, whoever begins it. So when many are
 * unfinished, a client gets a cookie first, and no more work until it has sent that back. The
 * supervisor hears of it, and closes those first that have not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/chan.h"
#include "rpc/relayed.h"
#include "rpc/tls.h"
#include "server/front/front.h"
#include "server/front/handshakes.h"
#include "util/log.h"
#include "util/address/sockaddr.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CALM 64	      /* so many unfinished handshakes begin without a cookie */
#define BEGUN 16      /* at a time: the dearest step, so that the others' are not late */
#define ASKED 64      /* the same of cookies */
#define ANSWER_MS 100 /* for the socket to take an answer: it is empty */

/* Certificate and key, as long as handshakes use them. */
struct keys {
	struct ck_tls *tls;
	size_t users;
};

enum stage {
	NEW,
	ASKED_FOR_COOKIE,
	BEGUN_HANDSHAKE,
	DONE /* and the client has not sent anything yet */
};

struct shake {
	struct ck_chan *chan; /* over the wire, which it closes */
	int plain;
	struct keys *keys;
	bool ready, ends; /* as the last poll says */
	enum stage stage;
};

struct cks_handshakes {
	struct keys *keys; /* for new ones: it counts as a user */
	size_t most, count;
	struct shake list[CK_HANDSHAKES]; /* oldest first */
};

struct cks_handshakes *cks_handshakes_create(void)
{
	struct cks_handshakes *s = calloc(1, sizeof(*s));
	struct rlimit files;

	if (!s)
		return NULL;
	s->most = CK_HANDSHAKES;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 4 < s->most)
		s->most = ck_max((size_t)files.rlim_cur / 4, (size_t)8);
	return s;
}

static void release_keys(struct keys *keys)
{
	if (!keys || --keys->users > 0)
		return;
	ck_tls_destroy(keys->tls);
	free(keys);
}

int cks_handshakes_use(struct cks_handshakes *s, struct ck_tls *tls)
{
	struct keys *keys = malloc(sizeof(*keys));

	if (!keys) {
		ck_tls_destroy(tls);
		return -ENOMEM;
	}
	*keys = (struct keys){.tls = tls, .users = 1};
	release_keys(s->keys);
	s->keys = keys;
	return 0;
}

/* Forget it. Its connection is another process's, or is closed. */
static void end_shake(struct cks_handshakes *s, size_t i)
{
	struct shake *k = &s->list[i];

	ck_tls_leave(k->chan);
	close(k->plain);
	release_keys(k->keys);
	s->count--;
	memmove(k, k + 1, (s->count - i) * sizeof(*k));
}

/* The oldest whose client has not answered anything; else the oldest. */
static size_t find_victim(const struct cks_handshakes *s)
{
	size_t i = 0;

	while (i < s->count && s->list[i].stage > ASKED_FOR_COOKIE)
		i++;
	return i < s->count ? i : 0;
}

void cks_handshakes_destroy(struct cks_handshakes *s)
{
	if (!s)
		return;
	while (s->count > 0)
		end_shake(s, s->count - 1);
	release_keys(s->keys);
	free(s);
}

void cks_handshakes_add(struct cks_handshakes *s, int wire, int plain)
{
	struct shake k = {.plain = plain, .keys = s->keys};
	struct ck_chan *connection;

	if (!s->keys || ck_chan_adopt(wire, &connection) < 0) {
		close(wire);
		close(plain);
		return;
	}
	ck_chan_timeout(connection, ANSWER_MS);
	if (ck_tls_open(s->keys->tls, NULL, connection, &k.chan) < 0) {
		close(plain);
		return;
	}
	if (s->count == s->most)
		end_shake(s, find_victim(s));
	s->keys->users++;
	s->list[s->count++] = k;
}

size_t cks_handshakes_poll(const struct cks_handshakes *s, struct pollfd *fds)
{
	for (size_t i = 0; i < s->count; i++) {
		fds[2 * i] = (struct pollfd){.fd = ck_chan_fd(s->list[i].chan), .events = POLLIN};
		fds[2 * i + 1] = (struct pollfd){.fd = s->list[i].plain}; /* its end */
	}
	return 2 * s->count;
}

/* Say who the client is. -errno. */
static int name_client(const struct shake *k)
{
	struct ck_relayed who = {.peer.ss_family = AF_UNSPEC};
	int ret = ck_tls_peer_name(k->chan, who.name);

	if (ret == 0)
		ret = ck_sockaddr_peer(ck_chan_fd(k->chan), &who.peer);
	return ret < 0 ? ret : ck_relayed_set(k->plain, &who);
}

/* In the child that relays connection @i. */
static _Noreturn void run_relay(struct cks_handshakes *s, size_t i)
{
	struct shake k = s->list[i];

	close(CK_FRONT_CONTROL);
	for (size_t other = 0; other < s->count; other++) {
		if (other == i)
			continue;
		close(ck_chan_fd(s->list[other].chan));
		close(s->list[other].plain);
	}
	ck_chan_timeout(k.chan, 0);
	cks_relay_run(k.chan, k.plain);
}

static void start_relay(struct cks_handshakes *s, size_t i)
{
	pid_t child = fork();

	if (child == 0)
		run_relay(s, i);
	if (child < 0)
		ck_err("TLS: no process for a connection: %m");
}

/* The supervisor records a client whose certificate is refused. It reads the words of a connection
 * that has no name yet as those of this process, not of the client. */
static void tell_refusal(const struct shake *k, const char *why)
{
	ck_info("TLS: refused: %s: %s", ck_chan_peer(k->chan), why);
	if (ck_tls_distrusts(k->chan) &&
	    send(k->plain, why, strlen(why), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		ck_debug("TLS: the supervisor has closed a refused connection: %m");
}

/* The client has sent the cookie back: the supervisor closes others first. */
static void tell_answer(const struct shake *k)
{
	const char answers = CK_FRONT_ANSWERS;

	if (send(k->plain, &answers, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		ck_debug("TLS: the supervisor has closed a connection: %m");
}

static bool is_calm(const struct cks_handshakes *s)
{
	return s->count <= CALM;
}

/* Where a handshake is after a step that has ended with @ret. */
static enum stage stage_after(const struct shake *k, int ret)
{
	if (ret == 0)
		return DONE;
	if (k->stage == NEW)
		return ck_tls_asks(k->chan) ? ASKED_FOR_COOKIE : BEGUN_HANDSHAKE;
	return ck_tls_asks(k->chan) ? k->stage : BEGUN_HANDSHAKE;
}

/* Bytes of the handshake have come, or its end. 0: it is done; -EAGAIN: it goes on; else -errno,
 * logged. */
static int shake_on(struct shake *k, bool calm)
{
	char why[CK_TLS_WHY];
	int ret = k->stage == NEW && !calm ? ck_tls_ask(k->chan) : 0;

	if (ret == 0)
		ret = ck_tls_step(k->chan, why);
	if (ret == 0)
		ret = name_client(k);
	if (k->stage == ASKED_FOR_COOKIE && !ck_tls_asks(k->chan))
		tell_answer(k);
	if (ret == -EACCES)
		tell_refusal(k, why);
	else if (ret < 0 && ret != -EAGAIN)
		ck_debug("TLS: %s: %s", ck_chan_peer(k->chan), strerror(-ret));
	k->stage = stage_after(k, ret);
	return ret;
}

/* Something has come. True: it goes on here. */
static bool advance_handshake(struct cks_handshakes *s, size_t i)
{
	struct shake *k = &s->list[i];
	bool was_done = k->stage == DONE;
	int ret = was_done ? 0 : shake_on(k, is_calm(s));

	if (ret < 0)
		return ret == -EAGAIN;
	if (ck_chan_pending(k->chan) == 0)
		return !was_done; /* it is readable because it has ended */
	start_relay(s, i);
	return false;
}

/*
 * Go on with @most of those that are at a stage from @from to @to. The newest come first: when more
 * come than can be served, the oldest are about to be closed, and work done for them is lost.
 */
static void run_some(struct cks_handshakes *s, enum stage from, enum stage to, size_t most)
{
	for (size_t i = s->count; i-- > 0 && most > 0;) {
		struct shake *k = &s->list[i];

		if (!k->ends && !(k->ready && k->stage >= from && k->stage <= to))
			continue;
		most--;
		k->ready = false;
		if (k->ends || !advance_handshake(s, i))
			end_shake(s, i);
	}
}

void cks_handshakes_run(struct cks_handshakes *s, const struct pollfd *fds)
{
	for (size_t i = 0; i < s->count; i++) {
		s->list[i].ready = fds[2 * i].revents != 0;
		s->list[i].ends = fds[2 * i + 1].revents != 0;
	}
	run_some(s, BEGUN_HANDSHAKE, DONE, CK_HANDSHAKES);
	run_some(s, ASKED_FOR_COOKIE, ASKED_FOR_COOKIE, BEGUN);
	run_some(s, NEW, NEW, is_calm(s) ? BEGUN : ASKED);
}
