/*
 * tests/unit/test_rpc_lasting.c - a lasting channel over connections that break after a chosen
 * number of bytes.
 *
 * Two threads talk: the client asks, the server answers with a sum. A third one, the test, gives
 * them connections, as keepers do. Each connection lets so many bytes pass in a direction and then
 * ends, in the middle of a message.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "rpc_ends.h"
#include "rpc/lasting.h"
#include "rpc/transport/lasting.h"
#include "rpc/transport/transport.h"
#include "util/util.h"

/* An assertion in a thread that cmocka did not start. */
#define check(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* --- a connection that breaks */

struct cut {
	struct ck_chan base;
	struct ck_chan *inner;
	long left; /* bytes that may still be written */
};

static int cut_writev(struct ck_chan *chan, struct iovec *iov, int count, int fd)
{
	struct cut *c = (struct cut *)chan;
	int ret = 0;

	(void)fd;
	for (int i = 0; i < count && ret == 0; i++) {
		struct iovec part = {iov[i].iov_base,
				     (size_t)ck_min((long)iov[i].iov_len, c->left)};

		c->left -= (long)part.iov_len;
		if (part.iov_len > 0)
			ret = ck_chan_writev(c->inner, &part, 1);
		if (ret == 0 && c->left == 0) {
			ck_chan_shutdown(c->inner);
			ret = -ECONNRESET;
		}
	}
	return ret;
}

static long cut_read(struct ck_chan *chan, void *buf, size_t size, size_t least)
{
	struct cut *c = (struct cut *)chan;

	c->inner->timeout_ms = chan->timeout_ms;
	return c->inner->ops->read(c->inner, buf, size, least);
}

static size_t cut_pending(struct ck_chan *chan)
{
	return ck_chan_pending(((struct cut *)chan)->inner);
}

static void cut_shutdown(struct ck_chan *chan)
{
	ck_chan_shutdown(((struct cut *)chan)->inner);
}

static void cut_close(struct ck_chan *chan)
{
	ck_chan_close(((struct cut *)chan)->inner);
	free(chan);
}

static const struct ck_transport_ops cut_ops = {.name = "cut",
						.writev = cut_writev,
						.read = cut_read,
						.pending = cut_pending,
						.shutdown = cut_shutdown,
						.close = cut_close};

#define NEVER (1L << 40)
#define SLOTS 4

static void cut_pair(struct ck_chan *ends[2], long after, long after_back)
{
	long left[2] = {after, after_back};
	struct ck_chan *inner[2];

	socket_pair(inner);
	for (int i = 0; i < 2; i++) {
		struct cut *c = calloc(1, sizeof(*c));

		*c = (struct cut){.base = {.ops = &cut_ops, .kept = inner[i]->kept, .offer_fd = -1},
				  .inner = inner[i],
				  .left = left[i]};
		ends[i] = &c->base;
	}
}

/* --- the two channels, and who repairs them */

struct world {
	struct ck_chan *chan[2];
	pthread_t thread[2];
	const long *script; /* for each connection: bytes there, bytes back */
	size_t scripted, used;
	unsigned int rounds;
	size_t size;		 /* of the largest message */
	bool lend, much, narrow; /* narrow: the connections hold few bytes */
	atomic_bool done;
};

static void create_pair(struct ck_chan *chan[2], size_t limit)
{
	assert_int_equal(ck_lasting_create("client", NULL, limit, &chan[0]), 0);
	assert_int_equal(ck_lasting_create("server", NULL, limit, &chan[1]), 0);
}

static void link_pair(struct ck_chan *chan[2], long after, long after_back, bool narrow)
{
	const int few = 1;
	struct ck_chan *ends[2];
	uint64_t received[2];

	cut_pair(ends, after, after_back);
	for (int i = 0; i < 2 && narrow; i++)
		setsockopt(ck_chan_fd(ends[i]), SOL_SOCKET, SO_SNDBUF, &few, sizeof(few));
	for (int i = 0; i < 2; i++)
		ck_lasting_detach(chan[i], &received[i]);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ck_lasting_attach(chan[i], ends[i], received[1 - i], false), 0);
}

static void *resend(void *chan)
{
	ck_lasting_resend(chan);
	return NULL;
}

/* One connection after the other until the talk is over. */
static void keep(struct world *w)
{
	pthread_t thread[2];

	while (!w->done) {
		bool scripted = w->used < w->scripted;

		link_pair(w->chan, scripted ? w->script[2 * w->used] : NEVER,
			  scripted ? w->script[2 * w->used + 1] : NEVER, w->narrow);
		w->used++;
		for (int i = 0; i < 2; i++)
			assert_int_equal(pthread_create(&thread[i], NULL, resend, w->chan[i]), 0);
		while (!w->done && ck_lasting_state(w->chan[0], NULL) == CK_LASTING_UP &&
		       ck_lasting_state(w->chan[1], NULL) == CK_LASTING_UP) {
			ck_lasting_look(w->chan[0], false);
			ck_lasting_look(w->chan[1], false);
			usleep(20);
		}
		for (int i = 0; i < 2; i++) {
			if (ck_lasting_state(w->chan[i], NULL) == CK_LASTING_UP && !w->done)
				ck_lasting_look(w->chan[i], false);
		}
		if (!w->done) { /* the end that does not know yet */
			uint64_t received;

			ck_lasting_detach(w->chan[0], &received);
			ck_lasting_detach(w->chan[1], &received);
		}
		for (int i = 0; i < 2; i++)
			pthread_join(thread[i], NULL);
	}
}

static size_t size_of(const struct world *w, unsigned int round)
{
	return 1 + (round * 7919u + 13) % w->size;
}

static uint32_t fill(unsigned char *bytes, size_t size, unsigned int seed)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < size; i++) {
		bytes[i] = (unsigned char)(seed * 31 + i * 7 + (i >> 8));
		sum = sum * 33 + bytes[i];
	}
	return sum;
}

static void *ask(void *arg)
{
	struct world *w = arg;
	unsigned char *bytes = malloc(w->size);

	for (unsigned int i = 0; i < w->rounds; i++) {
		uint32_t size = (uint32_t)size_of(w, i), sum = fill(bytes, size, i), got;
		struct iovec iov[2] = {{&size, 4}, {bytes, size}};

		check((w->lend ? ck_chan_lend(w->chan[0], iov, 2, 1)
			       : ck_chan_writev(w->chan[0], iov, 2)) == 0);
		check(ck_chan_read(w->chan[0], &got, 4) == 0);
		check(got == sum);
		ck_chan_settle(w->chan[0]);
	}
	free(bytes);
	w->done = true;
	return NULL;
}

static void *answer(void *arg)
{
	struct world *w = arg;
	unsigned char *bytes = malloc(w->size);

	for (unsigned int i = 0; i < w->rounds; i++) {
		uint32_t size, sum = 0;
		struct iovec iov = {&sum, 4};

		check(ck_chan_read(w->chan[1], &size, 4) == 0);
		check(size == size_of(w, i));
		check(ck_chan_read(w->chan[1], bytes, size) == 0);
		for (size_t j = 0; j < size; j++)
			sum = sum * 33 + bytes[j];
		check(ck_chan_writev(w->chan[1], &iov, 1) == 0);
	}
	free(bytes);
	return NULL;
}

/* The client asks once; the server answers from slots that it fills again, as a download does. */
static void *ask_much(void *arg)
{
	struct world *w = arg;
	unsigned char *bytes = malloc(w->size), *want = malloc(w->size);

	for (unsigned int i = 0; i < w->rounds; i++) {
		fill(want, w->size, i);
		check(ck_chan_read(w->chan[0], bytes, w->size) == 0);
		check(memcmp(bytes, want, w->size) == 0);
	}
	free(bytes);
	free(want);
	w->done = true;
	return NULL;
}

static void *answer_much(void *arg)
{
	struct world *w = arg;
	unsigned char *slots = malloc(SLOTS * w->size);
	uint64_t until[SLOTS] = {0};

	for (unsigned int i = 0; i < w->rounds; i++) {
		struct iovec iov = {slots + i % SLOTS * w->size, w->size};

		ck_chan_settle_until(w->chan[1], until[i % SLOTS]);
		fill(iov.iov_base, w->size, i);
		check(ck_chan_lend_until(w->chan[1], &iov, 1, 0, &until[i % SLOTS]) == 0);
	}
	ck_chan_settle(w->chan[1]);
	free(slots);
	return NULL;
}

/* Let them talk over connections that break as @script says; returns how many were needed. */
static size_t talk(struct world *w)
{
	create_pair(w->chan, CK_LASTING_LIMIT);
	assert_int_equal(pthread_create(&w->thread[0], NULL, w->much ? ask_much : ask, w), 0);
	assert_int_equal(pthread_create(&w->thread[1], NULL, w->much ? answer_much : answer, w), 0);
	keep(w);
	pthread_join(w->thread[0], NULL);
	pthread_join(w->thread[1], NULL);
	close_pair(w->chan);
	return w->used;
}

#define TALK_BYTES 420 /* of a talk of six rounds, there: see the first test */

static void a_talk_goes_on_after_a_cut_at_any_byte(void **state)
{
	(void)state;
	for (long after = 1; after < TALK_BYTES; after++) {
		const long there[2] = {after, NEVER}, back[2] = {NEVER, 1 + after % 80};
		struct world w = {.script = there, .scripted = 1, .rounds = 6, .size = 80};
		size_t used = talk(&w);

		if (after < 100)
			assert_int_equal(used, 2);
		w = (struct world){.script = back, .scripted = 1, .rounds = 6, .size = 80};
		talk(&w);
	}
}

static void a_repair_that_is_cut_is_repaired(void **state)
{
	(void)state;
	for (long first = 20; first < 60; first += 7) {
		for (long second = 1; second < 60; second++) {
			const long script[6] = {first, NEVER, second, 1 + second % 9, 3, 9};
			struct world w = {.script = script, .scripted = 3, .rounds = 4, .size = 80};

			talk(&w);
		}
	}
}

static void large_messages_survive_cuts(void **state)
{
	long script[40];

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(script); i++)
		script[i] = 1000 + (long)(i * 104729 % 900001);
	for (int lend = 0; lend < 2; lend++) {
		struct world w = {.script = script,
				  .scripted = 20,
				  .rounds = 12,
				  .size = 3 << 20,
				  .lend = lend};

		talk(&w);
	}
}

/* A slot is filled again when its bytes are confirmed or copied, even if its connection breaks
 * meanwhile. */
static void reused_slots_survive_cuts(void **state)
{
	long script[80];

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(script); i += 2) {
		script[i] = i % 3 ? NEVER : 8 + (long)i; /* confirmations */
		script[i + 1] = 5000 + (long)(i * 104729 % 1500001);
	}
	for (size_t size = 64 << 10; size <= 1 << 20; size *= 4) {
		struct world w = {.script = script,
				  .scripted = CK_ARRAY_SIZE(script) / 2,
				  .rounds = 40,
				  .size = size,
				  .much = true};

		talk(&w);
	}
}

/* Where a connection has no room, confirmations wait, and both ends write at the same time. */
static void both_ends_get_on_where_there_is_little_room(void **state)
{
	(void)state;
	for (int kind = 0; kind < 3; kind++) {
		struct world w = {.rounds = 60,
				  .size = 1 << 20,
				  .lend = kind == 1,
				  .much = kind == 2,
				  .narrow = true};

		talk(&w);
	}
}

/* --- one end against bytes */

/* A lasting channel, and the plain other end of its connection. */
static void create_against(struct ck_chan **lasting, struct ck_chan **plain, size_t limit)
{
	struct ck_chan *ends[2];
	uint64_t received;

	socket_pair(ends);
	assert_int_equal(ck_lasting_create("peer", NULL, limit, lasting), 0);
	ck_lasting_detach(*lasting, &received);
	assert_int_equal(received, 0);
	assert_int_equal(ck_lasting_attach(*lasting, ends[0], 0, false), 0);
	*plain = ends[1];
}

static void send_head(struct ck_chan *plain, uint32_t length, uint32_t count)
{
	uint32_t head[2] = {htonl(length), htonl(count)};
	struct iovec iov = {head, sizeof(head)};

	assert_int_equal(ck_chan_writev(plain, &iov, 1), 0);
}

static void a_frame_that_no_peer_sends_ends_the_channel(void **state)
{
	static const uint32_t heads[][2] = {
		{(1u << 20) + 1, 0}, /* too long */
		{0x80000004u, 0},    /* an unknown flag */
		{0, 1},		     /* confirms what was never sent */
		{0, 0xffffffffu},
	};
	char byte;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(heads); i++) {
		struct ck_chan *lasting, *plain;
		int why;

		create_against(&lasting, &plain, CK_LASTING_LIMIT);
		send_head(plain, heads[i][0], heads[i][1]);
		assert_int_equal(ck_chan_read(lasting, &byte, 1), -EPROTO);
		assert_int_equal(ck_lasting_state(lasting, &why), CK_LASTING_ENDED);
		assert_int_equal(why, -EPROTO);
		ck_chan_close(lasting);
		ck_chan_close(plain);
	}
}

static void a_goodbye_ends_reads_after_the_data(void **state)
{
	struct ck_chan *chan[2];
	struct iovec iov = {(char *)(uintptr_t) "last", 4};
	char text[4];

	(void)state;
	create_pair(chan, CK_LASTING_LIMIT);
	link_pair(chan, NEVER, NEVER, false);
	assert_int_equal(ck_chan_writev(chan[0], &iov, 1), 0);
	ck_lasting_bye(chan[0], 1000);
	assert_int_equal(ck_chan_read(chan[1], text, 4), 0);
	assert_memory_equal(text, "last", 4);
	assert_int_equal(ck_chan_read(chan[1], text, 1), -EPIPE);
	assert_true(ck_chan_peer_gone(chan[1]));
	close_pair(chan);
}

static void an_end_without_a_goodbye_is_not_the_channels(void **state)
{
	struct ck_chan *lasting, *plain;
	char byte;
	int why;

	(void)state;
	create_against(&lasting, &plain, CK_LASTING_LIMIT);
	ck_chan_close(plain);
	ck_lasting_look(lasting, false);
	assert_int_equal(ck_lasting_state(lasting, &why), CK_LASTING_DOWN);
	assert_int_equal(why, -EPIPE);
	assert_false(ck_chan_peer_gone(lasting));
	ck_chan_timeout(lasting, 50);
	assert_int_equal(ck_chan_read(lasting, &byte, 1), -ETIMEDOUT);
	ck_chan_shutdown(lasting);
	assert_int_equal(ck_chan_read(lasting, &byte, 1), -EPIPE);
	ck_chan_close(lasting);
}

static void without_a_connection_writes_go_on_to_the_limit(void **state)
{
	static char bytes[4096];
	struct ck_chan *lasting;
	struct iovec iov;
	int ret = 0, count = 0;

	(void)state;
	assert_int_equal(ck_lasting_create("peer", NULL, 64 << 10, &lasting), 0);
	ck_chan_timeout(lasting, 50);
	while (ret == 0 && count < 100) {
		iov = (struct iovec){bytes, sizeof(bytes)};
		ret = ck_chan_writev(lasting, &iov, 1);
		count += ret == 0;
	}
	assert_int_equal(ret, -ETIMEDOUT);
	assert_int_equal(count, 16);
	ck_lasting_give_up(lasting, -ENOENT);
	assert_int_equal(ck_chan_writev(lasting, &iov, 1), -ENOENT);
	ck_chan_close(lasting);
}

/* Lent bytes may be changed after settle has returned, and arrive as they were. */
static void settled_bytes_are_the_callers_again(void **state)
{
	static char bytes[200000], got[sizeof(bytes)];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct ck_chan *chan[2];

	(void)state;
	create_pair(chan, CK_LASTING_LIMIT);
	memset(bytes, 'x', sizeof(bytes));
	assert_int_equal(ck_chan_lend(chan[0], &iov, 1, 0), 0);
	ck_chan_settle(chan[0]);
	memset(bytes, 'y', sizeof(bytes));
	link_pair(chan, NEVER, NEVER, false);
	ck_lasting_resend(chan[0]);
	assert_int_equal(ck_chan_read(chan[1], got, sizeof(got)), 0);
	for (size_t i = 0; i < sizeof(got); i++)
		assert_int_equal(got[i], 'x');
	close_pair(chan);
}

/* Of two loans, the first is the lender's again, and the second is not copied. */
static void loans_are_settled_one_by_one(void **state)
{
	static char bytes[2][100000], got[sizeof(bytes)];
	struct ck_chan *chan[2];
	uint64_t until[2];

	(void)state;
	create_pair(chan, CK_LASTING_LIMIT);
	memset(bytes, 'x', sizeof(bytes));
	for (int i = 0; i < 2; i++) {
		struct iovec iov = {bytes[i], sizeof(bytes[i])};

		assert_int_equal(ck_chan_lend_until(chan[0], &iov, 1, 0, &until[i]), 0);
	}
	ck_chan_settle_until(chan[0], until[0]);
	memset(bytes, 'y', sizeof(bytes));
	link_pair(chan, NEVER, NEVER, false);
	ck_lasting_resend(chan[0]);
	assert_int_equal(ck_chan_read(chan[1], got, sizeof(got)), 0);
	for (size_t i = 0; i < sizeof(got); i++)
		assert_int_equal(got[i], i < sizeof(got) / 2 ? 'x' : 'y');
	ck_chan_settle(chan[0]);
	close_pair(chan);
}

/* A client that closes its end is gone; after a reset it may come back. */
static void a_write_that_fails_does_not_say_that_the_peer_closed(void **state)
{
	struct iovec iov = {(char *)(uintptr_t) "four", 4};
	struct ck_chan *lasting, *plain;
	int why;

	(void)state;
	create_against(&lasting, &plain, CK_LASTING_LIMIT);
	assert_int_equal(shutdown(ck_chan_fd(lasting), SHUT_WR), 0); /* the next write gets EPIPE */
	assert_int_equal(ck_chan_writev(lasting, &iov, 1), 0);	     /* it is sent again later */
	assert_int_equal(ck_lasting_state(lasting, &why), CK_LASTING_DOWN);
	assert_int_equal(why, -ECONNRESET);
	ck_chan_close(lasting);
	ck_chan_close(plain);
}

static void *read_four(void *chan)
{
	uint32_t got = 0;

	check(ck_chan_read(chan, &got, sizeof(got)) == 0);
	return (void *)(uintptr_t)got;
}

/* Nothing more can be sent over @chan until its peer reads. */
static void fill_line(struct ck_chan *chan)
{
	static const char junk[4096];

	while (send(ck_chan_fd(chan), junk, sizeof(junk), MSG_DONTWAIT) > 0)
		;
}

/*
 * A reader that owes a confirmation waits for room to send it, without the lock. What another
 * thread buffers in this time is the reader's, even if nothing comes after it.
 */
static void a_reader_that_waits_for_room_sees_what_others_buffer(void **state)
{
	uint32_t head[3] = {htonl(4), 0, 0x01020304};
	struct iovec iov = {head, sizeof(head)};
	struct timespec until;
	struct ck_chan *lasting, *plain;
	struct ck_lasting *l;
	bool waits = false;
	pthread_t reader;
	void *got;

	(void)state;
	create_against(&lasting, &plain, CK_LASTING_LIMIT);
	l = ck_lasting_of(lasting);
	fill_line(l->inner);
	send_head(plain, 0x40000000u, 0); /* asks */
	assert_int_equal(pthread_create(&reader, NULL, read_four, lasting), 0);
	while (!waits) {
		pthread_mutex_lock(&l->lock);
		waits = l->owes && l->users > 0 && !l->reading;
		if (waits) {
			assert_int_equal(ck_chan_writev(plain, &iov, 1), 0);
			ck_lasting_hear(l, true);
		}
		pthread_mutex_unlock(&l->lock);
		usleep(100);
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 20;
	assert_int_equal(pthread_timedjoin_np(reader, &got, &until), 0);
	assert_int_equal((uintptr_t)got, 0x01020304);
	ck_chan_close(lasting);
	ck_chan_close(plain);
}

/* The frame with the last byte of a loan that is to be settled asks the peer to confirm. */
static void a_loan_asks_for_its_confirmation(void **state)
{
	static char bytes[100000], got[sizeof(bytes)];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct ck_chan *lasting, *plain;
	uint32_t head[2];
	uint64_t until;

	(void)state;
	create_against(&lasting, &plain, CK_LASTING_LIMIT);
	for (int asks = 0; asks < 2; asks++) {
		iov = (struct iovec){bytes, sizeof(bytes)};
		assert_int_equal(asks ? ck_chan_lend_until(lasting, &iov, 1, 0, &until)
				      : ck_chan_lend(lasting, &iov, 1, 0),
				 0);
		assert_int_equal(ck_chan_read(plain, head, sizeof(head)), 0);
		assert_int_equal(ntohl(head[0]), sizeof(bytes) | (asks ? 0x40000000u : 0));
		assert_int_equal(ck_chan_read(plain, got, sizeof(got)), 0);
	}
	assert_int_equal(until, 2 * sizeof(bytes));
	send_head(plain, 0, (uint32_t)until);
	ck_chan_settle_until(lasting, until);
	ck_chan_close(lasting);
	ck_chan_close(plain);
}

static void count_change(void *closure)
{
	(*(_Atomic unsigned int *)closure)++;
}

static void leave(void *closure, struct ck_chan *chan)
{
	(void)closure;
	(void)chan;
}

static void *read_one(void *chan)
{
	char byte;

	check(ck_chan_read(chan, &byte, 1) == 0);
	return NULL;
}

static bool is_read(struct ck_chan *chan)
{
	struct ck_lasting *l = ck_lasting_of(chan);
	bool reading;

	pthread_mutex_lock(&l->lock);
	reading = l->reading;
	pthread_mutex_unlock(&l->lock);
	return reading;
}

/* Keepers look at all channels when one of them changes; the reader of another has nothing to tell
 * them then. */
static void a_look_leaves_a_healthy_channel_alone(void **state)
{
	static _Atomic unsigned int changes;
	char bytes[1] = "x";
	const struct ck_lasting_owner owner = {
		.changed = count_change, .closing = leave, .closure = &changes};
	struct ck_chan *lasting, *ends[2];
	struct iovec iov = {bytes, 1};
	pthread_t thread;

	(void)state;
	socket_pair(ends);
	assert_int_equal(ck_lasting_create("peer", &owner, CK_LASTING_LIMIT, &lasting), 0);
	assert_int_equal(ck_lasting_attach(lasting, ends[0], 0, false), 0);
	changes = 0;
	assert_int_equal(pthread_create(&thread, NULL, read_one, lasting), 0);
	while (!is_read(lasting))
		usleep(100);
	ck_lasting_look(lasting, false);
	send_head(ends[1], 1, 0);
	assert_int_equal(ck_chan_writev(ends[1], &iov, 1), 0);
	pthread_join(thread, NULL);
	assert_int_equal(changes, 0);
	/* bytes wait for their reader, who has a place for them */
	send_head(ends[1], 1, 0);
	iov = (struct iovec){bytes, 1};
	assert_int_equal(ck_chan_writev(ends[1], &iov, 1), 0);
	ck_lasting_look(lasting, false);
	assert_int_equal(ck_frames_ready(&ck_lasting_of(lasting)->in), 0);
	ck_lasting_look(lasting, true);
	assert_int_equal(ck_frames_ready(&ck_lasting_of(lasting)->in), 1);
	ck_chan_close(lasting);
	ck_chan_close(ends[1]);
}

static void *send_frames(void *plain)
{
	static unsigned char much[CK_FRAME_MAX];

	for (int i = 0; i < 8; i++) {
		struct iovec iov = {much, sizeof(much)};
		uint32_t head[2] = {htonl(CK_FRAME_MAX), 0};
		struct iovec first = {head, sizeof(head)};

		check(ck_chan_writev(plain, &first, 1) == 0);
		check(ck_chan_writev(plain, &iov, 1) == 0);
	}
	return NULL;
}

/* It grows while bytes must be taken in without a reader. Later ones go to the reader's place,
 * without a detour. */
static void a_buffer_that_has_grown_is_given_up(void **state)
{
	unsigned char *to = malloc(8 * CK_FRAME_MAX);
	struct ck_chan *lasting, *plain;
	struct ck_frames *in;
	pthread_t thread;

	(void)state;
	create_against(&lasting, &plain, CK_LASTING_LIMIT);
	in = &ck_lasting_of(lasting)->in;
	assert_int_equal(pthread_create(&thread, NULL, send_frames, plain), 0);
	while (in->received < 4 * CK_FRAME_MAX)
		ck_lasting_look(lasting, true);
	assert_in_range(in->size, 4 * CK_FRAME_MAX, 16 * CK_FRAME_MAX);
	assert_int_equal(ck_chan_read(lasting, to, 8 * CK_FRAME_MAX - 1), 0);
	assert_int_equal(ck_chan_read(lasting, to, 1), 0);
	pthread_join(thread, NULL);
	send_head(plain, 1, 0);
	assert_int_equal(ck_chan_writev(plain, &(struct iovec){to, 1}, 1), 0);
	assert_int_equal(ck_chan_read(lasting, to, 1), 0);
	assert_in_range(in->size, 1, 64 << 10);
	free(to);
	ck_chan_close(lasting);
	ck_chan_close(plain);
}

static void a_link_of_a_peer_that_lies_is_refused(void **state)
{
	struct iovec iov = {(char *)(uintptr_t) "1234", 4};
	struct ck_chan *lasting, *plain, *ends[2];
	uint64_t received;

	(void)state;
	create_against(&lasting, &plain, CK_LASTING_LIMIT);
	assert_int_equal(ck_chan_writev(lasting, &iov, 1), 0);
	send_head(plain, 0, 3);
	ck_lasting_look(lasting, true);
	ck_lasting_detach(lasting, &received);
	socket_pair(ends);
	assert_int_equal(ck_lasting_attach(lasting, ends[0], 5, false), -EPROTO);
	ck_chan_close(ends[1]);
	socket_pair(ends);
	assert_int_equal(ck_lasting_attach(lasting, ends[0], 2, false), -ESTALE);
	ck_chan_close(ends[1]);
	ck_chan_close(lasting);
	ck_chan_close(plain);
}

#define BUDGET (4u << 20)
#define SHARERS 12

/* How much @chan keeps of what is written to it without a connection. */
static size_t fill_up(struct ck_chan *chan)
{
	static unsigned char piece[16 << 10];
	struct iovec iov = {piece, sizeof(piece)};
	size_t kept = 0;

	ck_chan_timeout(chan, 10);
	while (ck_chan_writev(chan, &iov, 1) == 0) {
		iov = (struct iovec){piece, sizeof(piece)};
		kept += sizeof(piece);
	}
	return kept;
}

static void channels_with_a_budget_keep_no_more_together(void **state)
{
	struct ck_lasting_budget budget = {.limit = BUDGET};
	const struct ck_lasting_owner owner = {.budget = &budget};
	struct ck_chan *chan[SHARERS];
	size_t kept[SHARERS], all = 0;

	(void)state;
	for (int i = 0; i < SHARERS; i++) {
		assert_int_equal(ck_lasting_create("peer", &owner, 1u << 20, &chan[i]), 0);
		kept[i] = fill_up(chan[i]);
		assert_in_range(kept[i], CK_LASTING_FREE, 1u << 20); /* each can go on */
		all += kept[i];
	}
	assert_int_equal(kept[0], 1u << 20);
	assert_in_range(all, BUDGET / 2, BUDGET + SHARERS * CK_LASTING_FREE);
	assert_int_equal(fill_up(chan[SHARERS - 1]), 0);
	ck_chan_close(chan[0]); /* its part is free again */
	assert_true(fill_up(chan[SHARERS - 1]) > 0);
	for (int i = 1; i < SHARERS; i++)
		ck_chan_close(chan[i]);
	assert_int_equal(atomic_load(&budget.used), 0);
}

/* What is lent is copied when its owner wants it back: that counts too. Confirmed bytes do no
 * longer. */
static void confirmed_bytes_go_back_to_the_budget(void **state)
{
	static unsigned char first[2 << 20], second[2 << 20];
	struct ck_lasting_budget budget = {.limit = 3u << 20};
	struct ck_replay r = {.limit = CK_LASTING_LIMIT, .budget = &budget};

	(void)state;
	assert_true(ck_replay_lend(&r, first, sizeof(first)));
	assert_true(ck_replay_lend(&r, second, sizeof(second)));
	assert_int_equal(ck_replay_own(&r, sizeof(first)), 0);
	assert_int_equal(ck_replay_own(&r, UINT64_MAX), -ENOBUFS);
	ck_replay_confirm(&r, sizeof(first));
	assert_int_equal(ck_replay_own(&r, UINT64_MAX), 0);
	while (ck_replay_grow(&r) == 0)
		; /* to the rest */
	assert_int_equal(r.size, 1u << 20);
	assert_int_equal(atomic_load(&budget.used), budget.limit);
	ck_replay_confirm(&r, sizeof(first) + sizeof(second));
	assert_int_equal(atomic_load(&budget.used), r.size); /* less than half: the ring stays */
	budget.limit = r.size;
	ck_replay_confirm(&r, r.to);
	assert_int_equal(atomic_load(&budget.used), 0);
	ck_replay_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_talk_goes_on_after_a_cut_at_any_byte),
		cmocka_unit_test(a_repair_that_is_cut_is_repaired),
		cmocka_unit_test(large_messages_survive_cuts),
		cmocka_unit_test(reused_slots_survive_cuts),
		cmocka_unit_test(both_ends_get_on_where_there_is_little_room),
		cmocka_unit_test(a_frame_that_no_peer_sends_ends_the_channel),
		cmocka_unit_test(a_goodbye_ends_reads_after_the_data),
		cmocka_unit_test(an_end_without_a_goodbye_is_not_the_channels),
		cmocka_unit_test(without_a_connection_writes_go_on_to_the_limit),
		cmocka_unit_test(settled_bytes_are_the_callers_again),
		cmocka_unit_test(loans_are_settled_one_by_one),
		cmocka_unit_test(a_write_that_fails_does_not_say_that_the_peer_closed),
		cmocka_unit_test(a_reader_that_waits_for_room_sees_what_others_buffer),
		cmocka_unit_test(a_loan_asks_for_its_confirmation),
		cmocka_unit_test(a_look_leaves_a_healthy_channel_alone),
		cmocka_unit_test(a_buffer_that_has_grown_is_given_up),
		cmocka_unit_test(a_link_of_a_peer_that_lies_is_refused),
		cmocka_unit_test(channels_with_a_budget_keep_no_more_together),
		cmocka_unit_test(confirmed_bytes_go_back_to_the_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
