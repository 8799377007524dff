/*
 * tests/e2e/throw.c - throws mutated messages at a server: throw ADDRESS COUNT [SEED]
 *
 * A session is opened as by a client, with objects to name. Messages that must leave it alive go
 * over its command connection and two call lanes until the server has answered for all of them;
 * then one that must end it, and the session has to be closed. Messages count when they have been
 * answered for. Strangers, connections that never become a session, are thrown in between.
 *
 * Status 0: COUNT messages thrown and every session behaved. 1: it did not; a line says how, and
 * the SEED of that session, from which it goes the same way again. 2: wrong use.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cricket.h"
#include "rpc/proc.h"
#include "rpc/record.h"
#include "tests/e2e/throw.h"
#include "util/hash.h"
#include "util/util.h"

#define DIAL_MS 20000

static struct {
	const char *address;
	uint64_t thrown, sessions, closed, stalled, strangers;
} tally;

/* What a driver makes of images is a way in too: they are named as they should be. */
static void throw_image(struct session *s)
{
	static char image[4096];
	size_t size = image_make(&s->world, image, sizeof(image));
	uint64_t id = ID_END + draw(&s->world, 100000);
	struct ck_hash hash;

	send_image(s, image, size, &hash);
	load(s, id, draw(&s->world, 2), &hash, id + 1);
}

static void collect(struct session *s, const struct message *m)
{
	struct lane *l = &s->lane[m->command ? 0 : 1 + draw(&s->world, LANES - 1)];

	push(l, m->bytes, m->size);
	if (m->command)
		s->world.seq++;
	else
		l->calls++;
}

static void complain(const struct message *m, uint64_t seed, const char *what)
{
	fprintf(stderr, "throw: seed %llu: %s%s", (unsigned long long)seed, what, m ? ":" : "\n");
	if (!m)
		return;
	fprintf(stderr, " on the %s, %zu bytes:", m->command ? "command connection" : "call lane",
		m->size);
	for (size_t i = 0; i < ck_min(m->size, (size_t)400); i++)
		fprintf(stderr, "%s%02x", i % 4 ? "" : " ", m->bytes[i]);
	fprintf(stderr, "\n");
}

/* A call that the server answers when it has carried out all that was sent. */
static void collect_wait(struct session *s)
{
	ck_wait_args args = {.head = {.seq = s->world.seq}};
	unsigned char buf[128];
	long n = ck_call_encode(buf, sizeof(buf), 1, CK_PROC_wait, (xdrproc_t)xdr_ck_wait_args,
				&args, 0);

	if (n < 0)
		abort();
	push(&s->lane[1], buf, (size_t)n);
	s->lane[1].calls++;
}

/* @count messages that leave the session alive; -1: it ended, or stood still (tallied). */
static int throw_harmless(struct session *s, uint32_t count, struct message *m, uint64_t seed)
{
	size_t collected = 0;
	bool moving = true;

	for (uint32_t i = 0; i < count && moving; i++) {
		if (draw(&s->world, 150) == 0)
			throw_image(s);
		do
			message_make(&s->world, m);
		while (m->fate != GOES_ON);
		collect(s, m);
		collected += m->size;
		if (collected < BATCH)
			continue;
		moving = pump(s, false);
		collected = 0;
	}
	collect_wait(s);
	if (moving && pump(s, true)) {
		tally.thrown += count;
		return 0;
	}
	for (int i = 0; i < LANES; i++) {
		if (s->lane[i].closed) {
			complain(NULL, seed, "the server has closed a session without cause");
			return -1;
		}
	}
	tally.stalled++;
	return 1;
}

/* One session from its beginning to its end; false: it did not behave. */
static bool throw_session(struct session *s, uint64_t seed, uint32_t count, struct message *m)
{
	int ret;

	s->world = (struct world){.random = (seed + 1) * 0x9e3779b97f4a7c15ull};
	ret = session_open(s, tally.address);
	if (ret < 0) {
		fprintf(stderr, "throw: seed %llu: no session: %s\n", (unsigned long long)seed,
			strerror(-ret));
		return false;
	}
	tally.sessions++;
	ret = throw_harmless(s, count, m, seed);
	if (ret != 0)
		return ret > 0;
	do
		message_make(&s->world, m);
	while (m->fate == GOES_ON);
	collect(s, m);
	pump(s, false);
	tally.thrown++;
	if (m->fate == ENDS && !wait_closed(s)) {
		complain(m, seed, "the server has not closed the session");
		return false;
	}
	tally.closed += m->fate == ENDS;
	return true;
}

/* A first record that is no hello, or nearly one; sent, and the connection closed. */
static void throw_stranger(struct world *w, struct message *m)
{
	ck_join_args join = {.lane = CK_LANE_CALL};
	ck_hello_args hello = {.protocol = draw(w, 2),
			       .release = (char *)"0",
			       .application = (char *)"stranger",
			       .host = (char *)""};
	bool greets = draw(w, 20) == 0;
	struct ck_chan *chan;
	struct iovec iov;
	long n;

	n = greets ? ck_call_encode(m->bytes, 4096, 1, CK_HELLO, (xdrproc_t)xdr_ck_hello_args,
				    &hello, 0)
		   : ck_call_encode(m->bytes, 4096, 1, CK_JOIN, (xdrproc_t)xdr_ck_join_args, &join,
				    0);
	m->size = (size_t)n;
	for (uint32_t i = draw(w, 4); i > 0; i--)
		m->bytes[draw(w, (uint32_t)m->size)] ^= (unsigned char)(1u << draw(w, 8));
	if (draw(w, 4) == 0)
		m->size = 1 + draw(w, (uint32_t)m->size);
	if (draw(w, 4) == 0)
		draw_bytes(w, m->bytes + 4 * draw(w, 2), m->size - ck_min(m->size, (size_t)4));
	if (ck_chan_dial(tally.address, DIAL_MS, &chan) < 0)
		return; /* the next session tells whether the server is there */
	iov = (struct iovec){.iov_base = m->bytes, .iov_len = m->size};
	if (ck_chan_writev(chan, &iov, 1) == 0)
		tally.thrown++;
	tally.strangers++;
	ck_chan_close(chan);
}

int main(int argc, char **argv)
{
	static struct session session;
	struct message m = {.bytes = malloc(THROW_MAX + 4096)};
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
	bool good = true;

	if (count == 0 || !m.bytes) {
		fprintf(stderr, "usage: throw ADDRESS COUNT [SEED]\n");
		return 2;
	}
	tally.address = argv[1];
	for (int i = 0; i < LANES; i++) {
		session.lane[i].out = malloc(ROOM);
		if (!session.lane[i].out)
			return 2;
	}
	while (good && tally.thrown < count) {
		struct world w = {.random = (seed + 7) * 0xd1342543de82ef95ull};
		uint32_t n = 200 + draw(&w, 2400);

		good = throw_session(&session, seed++, (uint32_t)ck_min((uint64_t)n, count), &m);
		session_close(&session);
		for (int i = 0; i < 10 && good; i++)
			throw_stranger(&w, &m);
	}
	printf("thrown %llu sessions %llu closed %llu stalled %llu strangers %llu\n",
	       (unsigned long long)tally.thrown, (unsigned long long)tally.sessions,
	       (unsigned long long)tally.closed, (unsigned long long)tally.stalled,
	       (unsigned long long)tally.strangers);
	return good ? 0 : 1;
}
