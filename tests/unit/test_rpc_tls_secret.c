/*
 * tests/unit/test_rpc_tls_secret.c - handshakes with the secret of a session: who has it, what is
 * repeated, and the session that a ClientHello names.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "rpc/tls.h"
#include "tests/unit/rpc_ends.h"

#define HELLO_MOST 4096
#define ROUNDS 1100 /* more than the numbers that a server remembers */

static const unsigned char id[CK_TLS_SESSION] = "a public id....";
static const unsigned char secret[CK_TLS_SECRET] = "what only the session may know.";

static struct {
	char folder[80], cert[96], key[96], pin[CK_TLS_PIN];
	struct ck_tls *client, *certified, *session;
} world;

static int make_world(void **state)
{
	char *const names[] = {(char *)"gpuhost.example"};
	const struct ck_tls_files files = {.cert = world.cert, .key = world.key};
	char why[CK_TLS_WHY];

	if (make_dir(state) < 0)
		return -1;
	snprintf(world.folder, sizeof(world.folder), "%s/tls", dir);
	snprintf(world.cert, sizeof(world.cert), "%s/" CK_TLS_CERT_FILE, world.folder);
	snprintf(world.key, sizeof(world.key), "%s/" CK_TLS_KEY_FILE, world.folder);
	if (ck_tls_new_certificate(world.folder, names, 1, world.pin, why) < 0 ||
	    ck_tls_create_server(&files, &world.certified, why) < 0)
		return -1;
	return ck_tls_create_client(&(struct ck_tls_files){.pin = world.pin}, &world.client, why);
}

static int end_world(void **state)
{
	ck_tls_destroy(world.client);
	ck_tls_destroy(world.certified);
	unlink(world.cert);
	unlink(world.key);
	rmdir(world.folder);
	return remove_dir(state);
}

static int make_session(void **state)
{
	char why[CK_TLS_WHY];

	(void)state;
	return ck_tls_create_session(id, secret, &world.session, why);
}

static int end_session(void **state)
{
	(void)state;
	ck_tls_destroy(world.session);
	world.session = NULL;
	return 0;
}

/* The server's end of a handshake, in a thread. */
struct accepting {
	struct ck_tls *tls;
	struct ck_chan *chan;
	int ret;
	char why[CK_TLS_WHY];
};

static void *accept_tls(void *closure)
{
	struct accepting *a = closure;

	a->ret = ck_tls_open(a->tls, NULL, a->chan, &a->chan);
	if (a->ret == 0)
		a->ret = ck_tls_finish(a->chan, a->why);
	return NULL;
}

/* A client offers @offered for @session to @tls: the server's result. The channels are in @ends. */
static int meet(struct ck_tls *tls, const unsigned char *session, const unsigned char *offered,
		uint64_t number, struct ck_chan *ends[2])
{
	struct accepting a = {.tls = tls};
	char why[CK_TLS_WHY];
	pthread_t thread;
	int ret;

	socket_pair(ends);
	a.chan = ends[1];
	pthread_create(&thread, NULL, accept_tls, &a);
	assert_int_equal(ck_tls_open(world.client, "gpuhost.example", ends[0], &ends[0]), 0);
	ck_tls_offer(ends[0], session, offered, number);
	ret = ck_tls_begin(ends[0], why);
	if (ret == 0)
		ret = ck_tls_finish(ends[0], why);
	pthread_join(thread, NULL);
	ends[1] = a.chan;
	if (a.ret == 0)
		assert_int_equal(ret, 0);
	return a.ret;
}

static void close_ends(struct ck_chan *ends[2])
{
	ck_chan_close(ends[0]);
	ck_chan_close(ends[1]);
}

static bool admits(struct ck_tls *tls, const unsigned char *session, const unsigned char *offered,
		   uint64_t number)
{
	struct ck_chan *ends[2];
	int ret = meet(tls, session, offered, number, ends);

	assert_true(ret == 0 || ret == -EACCES);
	close_ends(ends);
	return ret == 0;
}

static void who_has_the_secret_needs_no_certificate(void **state)
{
	struct ck_chan *ends[2];
	char text[8] = "1234567", got[8];
	struct iovec iov = {text, sizeof(text)};

	(void)state;
	assert_int_equal(meet(world.session, id, secret, 1, ends), 0);
	assert_true(ck_tls_by_secret(ends[0]) && ck_tls_by_secret(ends[1]));
	assert_int_equal(ck_chan_writev(ends[0], &iov, 1), 0);
	assert_int_equal(ck_chan_read(ends[1], got, sizeof(got)), 0);
	assert_string_equal(got, "1234567");
	close_ends(ends);
}

static void another_secret_or_session_is_refused(void **state)
{
	unsigned char other[CK_TLS_SECRET];

	(void)state;
	memcpy(other, secret, sizeof(other));
	other[CK_TLS_SECRET - 1] ^= 1;
	assert_false(admits(world.session, id, other, 1));
	assert_false(admits(world.session, other, secret, 2));
	assert_true(admits(world.session, id, secret, 1)); /* a wrong one has not used the number */
	assert_true(admits(world.session, id, secret, 2));
}

static void a_server_without_the_secret_shows_its_certificate(void **state)
{
	struct ck_chan *ends[2];
	char pin[CK_TLS_PIN];

	(void)state;
	assert_int_equal(meet(world.certified, id, secret, 1, ends), 0);
	assert_false(ck_tls_by_secret(ends[0]) || ck_tls_by_secret(ends[1]));
	assert_true(ck_tls_peer_pin(ends[0], pin));
	assert_string_equal(pin, world.pin);
	close_ends(ends);
}

static void a_client_without_the_secret_is_refused(void **state)
{
	struct accepting a = {.tls = world.session};
	char why[CK_TLS_WHY];
	struct ck_chan *ends[2];
	pthread_t thread;

	(void)state;
	socket_pair(ends);
	a.chan = ends[1];
	pthread_create(&thread, NULL, accept_tls, &a);
	assert_int_equal(ck_tls_open(world.client, "gpuhost.example", ends[0], &ends[0]), 0);
	assert_int_equal(ck_tls_begin(ends[0], why), 0);
	assert_true(ck_tls_finish(ends[0], why) < 0);
	pthread_join(thread, NULL);
	assert_int_equal(a.ret, -EACCES);
	ends[1] = a.chan;
	close_ends(ends);
}

static void a_number_is_good_once(void **state)
{
	(void)state;
	assert_true(admits(world.session, id, secret, 1000));
	assert_false(admits(world.session, id, secret, 1000));
	assert_true(admits(world.session, id, secret, 999)); /* connections overtake each other */
	for (uint64_t n = 0; n < ROUNDS; n++)
		assert_true(admits(world.session, id, secret, 2000 + n));
	assert_false(admits(world.session, id, secret, 999)); /* it is forgotten, with all below */
	assert_false(admits(world.session, id, secret, 500));
	assert_false(admits(world.session, id, secret, 2000 + ROUNDS - 1));
	assert_true(admits(world.session, id, secret, UINT64_MAX));
}

/* What a client with the secret sends first, in @hello; returns its bytes. */
static size_t record_hello(unsigned char hello[HELLO_MOST], bool offers)
{
	struct ck_chan *ends[2];
	char why[CK_TLS_WHY];
	long n;

	socket_pair(ends);
	assert_int_equal(ck_tls_open(world.client, "gpuhost.example", ends[0], &ends[0]), 0);
	if (offers)
		ck_tls_offer(ends[0], id, secret, 7);
	assert_int_equal(ck_tls_begin(ends[0], why), 0);
	n = ck_chan_read_some(ends[1], hello, HELLO_MOST);
	close_ends(ends);
	assert_true(n > 100);
	return (size_t)n;
}

/* Send @hello to the session: the result of its step, and whether it has answered anything but an
 * alert. */
static int replay(const unsigned char *hello, size_t size, bool *answered)
{
	struct iovec iov = {(void *)(uintptr_t)hello, size};
	unsigned char first = 0;
	struct ck_chan *ends[2];
	char why[CK_TLS_WHY];
	int ret;

	socket_pair(ends);
	assert_int_equal(ck_chan_writev(ends[0], &iov, 1), 0);
	assert_int_equal(ck_tls_open(world.session, NULL, ends[1], &ends[1]), 0);
	ret = ck_tls_step(ends[1], why);
	*answered = ck_chan_pending(ends[0]) > 0 && ck_chan_read(ends[0], &first, 1) == 0 &&
		    first == CK_TLS_FIRST_BYTE;
	close_ends(ends);
	return ret;
}

static void a_recorded_hello_gets_no_answer(void **state)
{
	unsigned char hello[HELLO_MOST];
	size_t size = record_hello(hello, true);
	bool answered;

	(void)state;
	assert_int_equal(replay(hello, size, &answered), -EAGAIN);
	assert_true(answered);
	assert_int_equal(replay(hello, size, &answered), -EACCES);
	assert_false(answered);
}

static void the_session_of_a_hello_is_found(void **state)
{
	unsigned char hello[HELLO_MOST], session[CK_TLS_SESSION];
	size_t size = record_hello(hello, true);

	(void)state;
	assert_true(ck_tls_hello_session(hello, size, session));
	assert_memory_equal(session, id, sizeof(id));
	for (size_t n = 0; n < size; n++) {
		/* as many bytes as that, so that sanitizers see reads beyond them */
		unsigned char *part = malloc(n ? n : 1);

		memcpy(part, hello, n);
		assert_false(ck_tls_hello_session(part, n, session));
		free(part);
	}
	size = record_hello(hello, false);
	assert_false(ck_tls_hello_session(hello, size, session));
}

static void a_bent_hello_names_the_session_or_none(void **state)
{
	unsigned char hello[HELLO_MOST], session[CK_TLS_SESSION];
	size_t size = record_hello(hello, true), named = 0;

	(void)state;
	for (size_t i = 0; i < 8 * size; i++) {
		hello[i / 8] ^= (unsigned char)(1u << i % 8);
		named += ck_tls_hello_session(hello, size, session) &&
			 memcmp(session, id, sizeof(id)) == 0;
		hello[i / 8] ^= (unsigned char)(1u << i % 8);
	}
	assert_true(named > size && named < 8 * size);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_has_the_secret_needs_no_certificate,
						make_session, end_session),
		cmocka_unit_test_setup_teardown(another_secret_or_session_is_refused, make_session,
						end_session),
		cmocka_unit_test(a_server_without_the_secret_shows_its_certificate),
		cmocka_unit_test_setup_teardown(a_client_without_the_secret_is_refused,
						make_session, end_session),
		cmocka_unit_test_setup_teardown(a_number_is_good_once, make_session, end_session),
		cmocka_unit_test_setup_teardown(a_recorded_hello_gets_no_answer, make_session,
						end_session),
		cmocka_unit_test(the_session_of_a_hello_is_found),
		cmocka_unit_test(a_bent_hello_names_the_session_or_none),
	};

	return cmocka_run_group_tests(tests, make_world, end_world);
}
