/*
 * test_rpc_tls.c - TLS over a channel: what arrives, keys that change, whom a client trusts, what
 * it never sends; and connections that arrive decrypted.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "rpc/relayed.h"
#include "rpc/secure.h"
#include "rpc/tls.h"
#include "tests/unit/rpc_ends.h"

#define MUCH (12u << 20)
#define HOST "gpuhost.example"

static struct {
	char folder[80], cert[96], key[96], pin[CK_TLS_PIN];
	struct ck_tls *server;
	bool far; /* connections seem to lead to another host */
} world;

/* In place of the C library's. */
int getpeername(int fd, struct sockaddr *address, socklen_t *size)
{
	int (*real)(int, struct sockaddr *, socklen_t *) =
		(int (*)(int, struct sockaddr *, socklen_t *))dlsym(RTLD_NEXT, "getpeername");
	int ret = real(fd, address, size);

	if (ret == 0 && world.far && address->sa_family == AF_INET)
		((struct sockaddr_in *)address)->sin_addr.s_addr = htonl(0x0a000007);
	return ret;
}

static int make_world(void **state)
{
	char *const names[] = {(char *)HOST, (char *)"127.0.0.1"};
	const struct ck_tls_files files = {.cert = world.cert, .key = world.key};
	char why[CK_TLS_WHY];

	if (make_dir(state) < 0)
		return -1;
	snprintf(world.folder, sizeof(world.folder), "%s/tls", dir);
	snprintf(world.cert, sizeof(world.cert), "%s/" CK_TLS_CERT_FILE, world.folder);
	snprintf(world.key, sizeof(world.key), "%s/" CK_TLS_KEY_FILE, world.folder);
	if (ck_tls_new_certificate(world.folder, names, 2, world.pin, why) < 0)
		return -1;
	return ck_tls_create_server(&files, &world.server, why);
}

static int end_world(void **state)
{
	ck_tls_destroy(world.server);
	unlink(world.cert);
	unlink(world.key);
	rmdir(world.folder);
	return remove_dir(state);
}

static struct ck_tls *client_context(const char *ca, const char *pin)
{
	const struct ck_tls_files files = {.ca = ca, .pin = pin};
	struct ck_tls *tls = NULL;
	char why[CK_TLS_WHY];

	assert_int_equal(ck_tls_create_client(&files, &tls, why), 0);
	return tls;
}

/* The server's end of a handshake, in a thread. */
struct accepting {
	struct ck_tls *tls;
	bool asks;	      /* for a cookie first */
	struct ck_chan *chan; /* plain, then encrypted; NULL: there is none */
	int ret;
	char why[CK_TLS_WHY];
};

/* Read the probe, and answer it. */
static int take_probe(struct ck_chan *chan)
{
	unsigned char probe[44], answer[CK_TLS_ANSWER];
	struct iovec iov = {answer, sizeof(answer)};
	int ret = ck_chan_read(chan, probe, sizeof(probe));
	uint32_t xid;

	memcpy(&xid, probe + 4, sizeof(xid));
	ck_tls_answer(ntohl(xid), answer);
	return ret < 0 ? ret : ck_chan_writev(chan, &iov, 1);
}

/* Over a socket that has bytes whenever it is asked, as a server that never waits. */
static int step_on(struct accepting *a)
{
	struct pollfd p = {.fd = ck_chan_fd(a->chan), .events = POLLIN};
	int ret = a->asks ? ck_tls_ask(a->chan) : 0;

	if (ret == 0)
		ret = -EAGAIN;
	while (ret == -EAGAIN && poll(&p, 1, 10000) == 1)
		ret = ck_tls_step(a->chan, a->why);
	return ret;
}

static void *accept_tls(void *closure)
{
	struct accepting *a = closure;

	a->ret = take_probe(a->chan);
	if (a->ret == 0)
		a->ret = ck_tls_open(a->tls, NULL, a->chan, &a->chan);
	if (a->ret == 0)
		a->ret = step_on(a);
	return NULL;
}

/* Shake hands over a pair of sockets, the client with @tls for @host; returns its result. */
static int meet_by(bool asks, struct ck_tls *tls, const char *host, struct ck_chan *ends[2],
		   char why[CK_TLS_WHY])
{
	struct accepting a = {.tls = world.server, .asks = asks};
	pthread_t thread;
	int ret;

	socket_pair(ends);
	a.chan = ends[1];
	pthread_create(&thread, NULL, accept_tls, &a);
	assert_int_equal(ck_tls_probe(ends[0]), 0);
	assert_int_equal(ck_tls_probed(ends[0]), 0);
	assert_int_equal(ck_tls_open(tls, host, ends[0], &ends[0]), 0);
	ret = ck_tls_begin(ends[0], why);
	if (ret == 0)
		ret = ck_tls_finish(ends[0], why);
	pthread_join(thread, NULL);
	ends[1] = a.chan;
	assert_int_equal(ret < 0, a.ret < 0);
	return ret;
}

static int meet(struct ck_tls *tls, const char *host, struct ck_chan *ends[2], char why[CK_TLS_WHY])
{
	return meet_by(false, tls, host, ends, why);
}

static void fill(unsigned char *data, size_t size, unsigned int seed)
{
	for (size_t i = 0; i < size; i++)
		data[i] = (unsigned char)((i * 2654435761u + seed) >> 13);
}

struct sending {
	struct ck_chan *chan;
	unsigned int seed;
};

/* In pieces of all sizes, with empty ones among them. */
static void *send_much(void *closure)
{
	struct sending *s = closure;
	unsigned char *data = malloc(MUCH);
	size_t at = 0, size = 1;

	fill(data, MUCH, s->seed);
	while (at < MUCH) {
		size_t first = size < MUCH - at ? size : MUCH - at;
		size_t second = size / 3 < MUCH - at - first ? size / 3 : MUCH - at - first;
		struct iovec iov[] = {
			{NULL, 0}, {data + at, first}, {NULL, 0}, {data + at + first, second}};

		assert_int_equal(ck_chan_writev(s->chan, iov, 4), 0);
		at += first + second;
		size = size * 5 / 3 % 700001 + 1;
	}
	free(data);
	return NULL;
}

static void receive_much(struct ck_chan *chan, unsigned int seed)
{
	unsigned char *data = malloc(MUCH), *wanted = malloc(MUCH);
	size_t at = 0, size = 1;

	fill(wanted, MUCH, seed);
	while (at < MUCH) {
		size_t n = size < MUCH - at ? size : MUCH - at;

		assert_int_equal(ck_chan_read(chan, data + at, n), 0);
		at += n;
		size = size * 7 / 4 % 600001 + 1;
	}
	assert_memory_equal(data, wanted, MUCH);
	free(data);
	free(wanted);
}

static void *receive_there(void *closure)
{
	struct sending *s = closure;

	receive_much(s->chan, s->seed);
	return NULL;
}

static void both_directions_carry_much_while_keys_change(void **state)
{
	struct ck_tls *tls = client_context(NULL, world.pin);
	struct ck_chan *ends[2];
	struct sending up, down;
	pthread_t threads[3];
	char why[CK_TLS_WHY];

	(void)state;
	assert_int_equal(meet(tls, HOST, ends, why), 0);
	ck_tls_rekey_after(ends[0], 300000);
	ck_tls_rekey_after(ends[1], 700000);
	up = (struct sending){ends[0], 1};
	down = (struct sending){ends[1], 2};
	pthread_create(&threads[0], NULL, send_much, &up);
	pthread_create(&threads[1], NULL, send_much, &down);
	pthread_create(&threads[2], NULL, receive_there, &(struct sending){ends[1], 1});
	receive_much(ends[0], 2);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	ck_chan_close(ends[0]);
	assert_int_equal(ck_chan_read(ends[1], why, 1), -EPIPE);
	ck_chan_close(ends[1]);
	ck_tls_destroy(tls);
}

static void *shake_as_client(void *closure)
{
	struct ck_chan *chan = closure;
	char why[CK_TLS_WHY];

	if (ck_tls_begin(chan, why) < 0 || ck_tls_finish(chan, why) < 0)
		fail_msg("%s", why);
	return NULL;
}

/* Pass on what has come at @from, @most bytes at a time. */
static bool pass_on(int from, int to, size_t most)
{
	struct pollfd p = {.fd = from, .events = POLLIN};
	char bytes[4096];
	ssize_t n = poll(&p, 1, 0) == 1 ? read(from, bytes, most) : 0;

	return n > 0 && write(to, bytes, (size_t)n) == n;
}

/* The client's bytes come to a server that asks for a cookie one by one. */
static void a_cookie_may_come_in_pieces(void **state)
{
	struct ck_tls *tls = client_context(NULL, world.pin);
	struct ck_chan *client[2], *server[2];
	char why[CK_TLS_WHY];
	pthread_t thread;
	int ret = -EAGAIN;

	(void)state;
	socket_pair(client);
	socket_pair(server);
	assert_int_equal(ck_tls_open(tls, HOST, client[0], &client[0]), 0);
	assert_int_equal(ck_tls_open(world.server, NULL, server[1], &server[1]), 0);
	assert_int_equal(ck_tls_ask(server[1]), 0);
	pthread_create(&thread, NULL, shake_as_client, client[0]);
	while (ret == -EAGAIN) {
		while (pass_on(ck_chan_fd(server[0]), ck_chan_fd(client[1]), 4096))
			;
		if (pass_on(ck_chan_fd(client[1]), ck_chan_fd(server[0]), 1))
			ret = ck_tls_step(server[1], why);
	}
	assert_int_equal(ret, 0);
	pthread_join(thread, NULL);
	for (int i = 0; i < 2; i++) {
		ck_chan_close(client[i]);
		ck_chan_close(server[i]);
	}
	ck_tls_destroy(tls);
}

/* The server has the client prove that it gets what is sent to it. */
static void a_client_sends_the_cookie_back(void **state)
{
	struct ck_tls *tls = client_context(NULL, world.pin);
	struct ck_chan *ends[2];
	char why[CK_TLS_WHY], byte = 'x';
	struct iovec iov = {&byte, 1};

	(void)state;
	assert_int_equal(meet_by(true, tls, HOST, ends, why), 0);
	assert_false(ck_tls_asks(ends[1]));
	assert_int_equal(ck_chan_writev(ends[0], &iov, 1), 0);
	assert_int_equal(ck_chan_read(ends[1], why, 1), 0);
	assert_int_equal(why[0], 'x');
	ck_chan_close(ends[0]);
	ck_chan_close(ends[1]);
	ck_tls_destroy(tls);
}

static void a_client_trusts_a_pin_or_an_authority_and_the_name(void **state)
{
	static const struct {
		const char *host, *words;
		bool ca, pin;
	} cases[] = {
		{HOST, NULL, true, false},
		{"127.0.0.1", NULL, true, false},
		{"elsewhere.example", "not for the name \"elsewhere.example\"", true, false},
		{"127.0.0.2", "not for the name", true, false},
		{"elsewhere.example", NULL, false, true},
		{HOST, "no authority that this client trusts", false, false},
	};
	struct ck_chan *ends[2];
	char why[CK_TLS_WHY];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ck_tls *tls = client_context(cases[i].ca ? world.cert : NULL,
						    cases[i].pin ? world.pin : NULL);
		int ret = meet(tls, cases[i].host, ends, why);

		assert_int_equal(ret, cases[i].words ? -EACCES : 0);
		if (cases[i].words && !strstr(why, cases[i].words))
			fail_msg("%s", why);
		ck_chan_close(ends[0]);
		ck_chan_close(ends[1]);
		ck_tls_destroy(tls);
	}
}

static void a_changed_byte_is_never_data(void **state)
{
	struct ck_tls *tls = client_context(NULL, world.pin);
	struct ck_chan *ends[2];
	char why[CK_TLS_WHY], text[8];
	struct iovec iov = {(char *)"a secret", 8};
	unsigned char record[256];
	ssize_t n;
	int pair[2];

	(void)state;
	assert_int_equal(meet(tls, HOST, ends, why), 0);
	assert_int_equal(ck_chan_writev(ends[0], &iov, 1), 0);
	n = recv(ck_chan_fd(ends[1]), record, sizeof(record), 0); /* on its way */
	assert_true(n > 8 && !memmem(record, (size_t)n, "a secret", 8));
	record[n - 1] ^= 1;
	/* the same socket brings it again, changed */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(dup2(pair[0], ck_chan_fd(ends[1])), ck_chan_fd(ends[1]));
	assert_int_equal(send(pair[1], record, (size_t)n, 0), n);
	assert_int_equal(ck_chan_read(ends[1], text, 8), -EBADMSG);
	assert_int_equal(ck_chan_read(ends[1], text, 8), -EBADMSG);
	ck_chan_close(ends[0]);
	ck_chan_close(ends[1]);
	close(pair[0]);
	close(pair[1]);
	ck_tls_destroy(tls);
}

static void a_forked_child_says_no_goodbye(void **state)
{
	struct ck_tls *tls = client_context(NULL, world.pin);
	struct ck_chan *ends[2];
	char why[CK_TLS_WHY], text[4];
	struct iovec iov = {(char *)"more", 4};
	pid_t child;
	int status;

	(void)state;
	assert_int_equal(meet(tls, HOST, ends, why), 0);
	child = fork();
	if (child == 0) {
		ck_chan_close(ends[0]);
		_exit(0);
	}
	waitpid(child, &status, 0);
	assert_int_equal(ck_chan_writev(ends[0], &iov, 1), 0);
	assert_int_equal(ck_chan_read(ends[1], text, 4), 0);
	assert_memory_equal(text, "more", 4);
	ck_chan_close(ends[0]);
	ck_chan_close(ends[1]);
	ck_tls_destroy(tls);
}

static void a_key_that_others_can_read_is_refused(void **state)
{
	const struct ck_tls_files files = {.cert = world.cert, .key = world.key};
	struct ck_tls *tls;
	char why[CK_TLS_WHY];

	(void)state;
	for (unsigned int mode = 0601; mode <= 0607; mode++) {
		chmod(world.key, mode);
		assert_int_equal(ck_tls_create_server(&files, &tls, why), -EPERM);
	}
	chmod(world.key, 0640); /* a group may, as Debian's ssl-cert */
	assert_int_equal(ck_tls_create_server(&files, &tls, why), 0);
	ck_tls_destroy(tls);
	chmod(world.key, 0600);
}

static void the_answer_to_a_probe_is_read_with_care(void **state)
{
	unsigned char good[] = {0x54, 0x4c, 0x53, 0x31, 0,   0,	  0, 1, 0, 0,	0,
				0,    0,    0,	  0,	0,   0,	  0, 0, 8, 'S', 'T',
				'A',  'R',  'T',  'T',	'L', 'S', 0, 0, 0, 0};
	unsigned char copy[sizeof(good)];

	(void)state;
	assert_int_equal(ck_tls_parse_answer(good, sizeof(good)), 0);
	for (size_t n = 0; n < sizeof(good); n++)
		assert_true(ck_tls_parse_answer(good, n) < 0);
	for (size_t i = 0; i < sizeof(good); i++) {
		memcpy(copy, good, sizeof(good));
		copy[i] ^= 0xff;
		if (i / 4 != 3) /* the verifier's flavour does not matter */
			assert_true(ck_tls_parse_answer(copy, sizeof(copy)) < 0);
	}
	assert_true(ck_tls_is_pin(world.pin));
	assert_false(ck_tls_is_pin("sha256:00"));
	assert_false(ck_tls_is_pin(world.pin + 1));
}

/* --- what a client encrypts */

static void *answer_plainly(void *closure)
{
	const unsigned char answer[] = {0x80, 0, 0, 24, 0x54, 0x4c, 0x53, 0x31, 0, 0, 0, 1, 0, 0,
					0,    0, 0, 0,	0,    0,    0,	  0,	0, 0, 0, 0, 0, 0};
	struct ck_chan *chan = closure;
	struct iovec iov = {(void *)(uintptr_t)answer, sizeof(answer)};
	unsigned char probe[44];

	if (ck_chan_read(chan, probe, sizeof(probe)) == 0)
		ck_chan_writev(chan, &iov, 1);
	return NULL;
}

/* Connect to a server without TLS that is at hand, or @far. */
static int plain_server(bool far, char why[CK_TLS_WHY])
{
	struct ck_secure *secure;
	struct ck_chan *ends[2];
	pthread_t thread;
	int ret;

	connect_pair("127.0.0.1:0", "127.0.0.1", ends);
	assert_int_equal(ck_secure_create(&secure, why), 0);
	pthread_create(&thread, NULL, answer_plainly, ends[1]);
	world.far = far;
	ret = ck_secure_channels(secure, "127.0.0.1", ends, 1, 5000, why);
	world.far = false;
	if (ret == 0)
		ck_chan_close(ends[0]);
	pthread_join(thread, NULL);
	ck_chan_close(ends[1]);
	ck_secure_destroy(secure);
	return ret;
}

static void a_token_does_not_cross_a_network_in_plain_text(void **state)
{
	char why[CK_TLS_WHY];

	(void)state;
	unsetenv("CRICKET_TLS");
	unsetenv("CRICKET_TOKEN");
	assert_int_equal(plain_server(true, why), 0); /* there is nothing to protect */
	setenv("CRICKET_TOKEN", "secret", 1);
	assert_int_equal(plain_server(false, why), 0);
	assert_int_equal(plain_server(true, why), -EKEYREJECTED);
	assert_non_null(strstr(why, "CRICKET_TOKEN would cross the network in plain text"));
	setenv("CRICKET_TLS", "offer", 1); /* an attacker could say that there is none */
	assert_int_equal(plain_server(false, why), 0);
	assert_int_equal(plain_server(true, why), -EKEYREJECTED);
	setenv("CRICKET_TLS", "require", 1);
	assert_int_equal(plain_server(false, why), -EKEYREJECTED);
	assert_non_null(strstr(why, "the server has no TLS"));
	setenv("CRICKET_TLS", "off", 1);
	assert_int_equal(plain_server(true, why), 0);
	unsetenv("CRICKET_TLS");
	unsetenv("CRICKET_TOKEN");
}

/* --- connections that arrive decrypted */

static void a_relayed_connection_says_who_is_behind_it(void **state)
{
	struct ck_relayed who = {.name = "alice"}, found = {.name = ""};
	struct sockaddr_in *address = (struct sockaddr_in *)&who.peer;
	struct ck_chan *chan;
	int pair[2], other[2];
	char text[4];

	(void)state;
	address->sin_family = AF_INET;
	address->sin_port = htons(4711);
	address->sin_addr.s_addr = htonl(0x0a000007);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, other), 0);
	assert_false(ck_relayed_get(pair[0], NULL));
	assert_int_equal(ck_relayed_set(pair[1], &who), 0);
	assert_true(ck_relayed_get(pair[0], &found));
	assert_string_equal(found.name, "alice");
	assert_memory_equal(&found.peer, &who.peer, sizeof(*address));
	assert_false(ck_relayed_get(pair[1], NULL));	     /* the relay's own end */
	assert_int_equal(ck_relayed_set(other[1], &who), 0); /* the same again */
	assert_int_equal(ck_chan_adopt(pair[0], &chan), 0);
	assert_string_equal(ck_chan_peer(chan), "tcp 10.0.0.7:4711");
	assert_false(ck_chan_passes_fds(chan));
	assert_int_equal(send(pair[1], "abcd", 4, 0), 4);
	ck_relayed_break(pair[1], 1000);
	close(pair[1]);
	assert_true(ck_relayed_get(pair[0], NULL)); /* also when the relay has gone */
	assert_int_equal(ck_chan_read(chan, text, 4), 0);
	assert_memory_equal(text, "abcd", 4);
	assert_int_equal(ck_chan_read(chan, text, 1), -ECONNRESET);
	assert_int_equal(ck_chan_read(chan, text, 1), -ECONNRESET);
	ck_chan_close(chan);
	close(other[0]);
	close(other[1]);
}

/* A client may choose its own name, but not that of the socket that accepts it. */
static void a_client_cannot_pose_as_a_relay(void **state)
{
	struct ck_relayed who = {.peer.ss_family = AF_INET, .name = "root"};
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener, client, accepted;

	(void)state;
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/s", dir);
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 1), 0);
	client = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(ck_relayed_set(client, &who), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof(at)), 0);
	accepted = accept(listener, NULL, NULL);
	assert_false(ck_relayed_get(accepted, NULL));
	close(accepted);
	close(client);
	close(listener);
	unlink(at.sun_path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_directions_carry_much_while_keys_change),
		cmocka_unit_test(a_client_sends_the_cookie_back),
		cmocka_unit_test(a_cookie_may_come_in_pieces),
		cmocka_unit_test(a_client_trusts_a_pin_or_an_authority_and_the_name),
		cmocka_unit_test(a_changed_byte_is_never_data),
		cmocka_unit_test(a_forked_child_says_no_goodbye),
		cmocka_unit_test(a_key_that_others_can_read_is_refused),
		cmocka_unit_test(the_answer_to_a_probe_is_read_with_care),
		cmocka_unit_test(a_token_does_not_cross_a_network_in_plain_text),
		cmocka_unit_test(a_relayed_connection_says_who_is_behind_it),
		cmocka_unit_test(a_client_cannot_pose_as_a_relay),
	};

	return cmocka_run_group_tests(tests, make_world, end_world);
}
