/*
 * tests/unit/test_server_admit.c - whose connection it is, which hellos are let in, the token's
 * file.
 */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/door/admit.h"
#include "server/options/options.h"
#include "server/worker/hello_check.h"

/* The server's end of a connection from @host of this machine to a listener of @family. */
static int connection_from(uint32_t host, int family)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
	struct sockaddr *any = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
	socklen_t size = family == AF_INET ? sizeof(v4) : sizeof(v6);
	int listener = socket(family, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), fd;

	if (bind(listener, any, size) < 0)
		return -1; /* no IPv6 here */
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, any, &size), 0);
	v4.sin_port = family == AF_INET ? v4.sin_port : v6.sin6_port;
	assert_int_equal(bind(client, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&v4, sizeof(v4)), 0);
	fd = accept(listener, NULL, NULL);
	assert_true(fd >= 0);
	close(listener);
	return fd; /* the client's end stays open until the process ends */
}

static void a_peer_is_an_address_or_a_user(void **state)
{
	int one = connection_from(0x7f000001, AF_INET),
	    again = connection_from(0x7f000001, AF_INET),
	    other = connection_from(0x7f000002, AF_INET),
	    mapped = connection_from(0x7f000001, AF_INET6);
	char name[CK_PEER_NAME], expected[CK_PEER_NAME];
	struct cks_peer a, b;
	int pair[2];

	(void)state;
	cks_peer_of(one, &a);
	assert_string_equal(cks_peer_name(&a, name), "address 127.0.0.1");
	assert_string_equal(cks_peer_source(&a, name), "127.0.0.1");
	cks_peer_of(again, &b);
	assert_true(cks_peer_equal(&a, &b)); /* whatever the port */
	cks_peer_of(other, &b);
	assert_false(cks_peer_equal(&a, &b));
	cks_peer_of(mapped, &b);
	assert_true(mapped < 0 || cks_peer_equal(&a, &b));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	cks_peer_of(pair[0], &b);
	snprintf(expected, sizeof(expected), "user %lu", (unsigned long)getuid());
	assert_string_equal(cks_peer_name(&b, name), expected);
	assert_false(cks_peer_equal(&a, &b));
	cks_peer_of(-1, &b);
	assert_string_equal(cks_peer_name(&b, name), "an unknown peer");
}

static void a_network_has_a_name_of_its_own(void **state)
{
	const struct cks_peer peer = {.kind = CK_PEER_NETWORK, .bytes = {0x20, 1, 0x0d, 0xb8}};
	char name[CK_PEER_NAME];

	(void)state;
	assert_string_equal(cks_peer_name(&peer, name), "network 2001:db8::/64");
	assert_string_equal(cks_peer_source(&peer, name), "2001:db8::/64");
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static bool admits(struct cks_token *token, const char *file, const char *secret)
{
	return cks_token_admits(token, file, secret, strlen(secret));
}

static void a_changed_token_counts_at_once(void **state)
{
	char path[] = "/tmp/cricket-token-XXXXXX";
	struct cks_token token = {.known = false};
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_false(admits(&token, path, "")); /* an empty file admits no one */
	for (int i = 0; i < 50; i++) {
		put(path, i % 2 ? "one\n" : "two\r\n\n");
		assert_true(admits(&token, path, i % 2 ? "one" : "two"));
		assert_false(admits(&token, path, i % 2 ? "two" : "one"));
	}
	unlink(path);
	assert_false(admits(&token, path, "one"));
	assert_false(admits(&token, path, "two"));
}

/* It is trusted when it has been as it is for a while: the times of files are coarse. */
static void a_token_that_has_not_changed_is_not_read_again(void **state)
{
	char path[] = "/tmp/cricket-token-XXXXXX";
	struct cks_token token = {.known = false};
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	put(path, "on disk");
	assert_true(admits(&token, path, "on disk"));
	assert_false(token.known);
	for (int ms = 0; ms < 20000 && !token.known; ms += 50) {
		usleep(50000);
		assert_true(admits(&token, path, "on disk"));
	}
	assert_true(token.known);
	memcpy(token.text, "in mind", 7);
	assert_true(admits(&token, path, "in mind"));
	put(path, "on disk");
	assert_false(admits(&token, path, "in mind"));
	assert_true(admits(&token, path, "on disk"));
	unlink(path);
}

/* Lines for the tokens "one" and "two" of alice, and "three" of bob. */
static void put_list(const char *path, const char *end_of_two, const char *last)
{
	static const char *const names[] = {"alice", "alice", "bob"};
	static const char *const tokens[] = {"one", "two", "three"};
	FILE *f = fopen(path, "w");
	char hex[CK_HASH_TEXT];
	struct ck_hash hash;

	assert_non_null(f);
	fputs("# who may come\n\n", f);
	for (int i = 0; i < 3; i++) {
		ck_hash(tokens[i], strlen(tokens[i]), &hash);
		ck_hash_print(&hash, hex);
		fprintf(f, "%s:%s%s\n", names[i], hex, i == 1 ? end_of_two : "");
	}
	fputs(last, f);
	fclose(f);
}

static void a_list_of_tokens_tells_the_holder(void **state)
{
	char why[CK_TOKEN_WHY];
	char path[] = "/tmp/cricket-token-XXXXXX";
	struct cks_token token = {.known = false};
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	put_list(path, ":2999-12-31", "");
	assert_int_equal(cks_token_check(path, why), 0);
	assert_true(admits(&token, path, "one"));
	assert_string_equal(token.holder, "alice");
	assert_true(admits(&token, path, "three"));
	assert_string_equal(token.holder, "bob");
	assert_true(admits(&token, path, "two"));
	assert_string_equal(token.holder, "alice");
	assert_false(admits(&token, path, "four"));
	assert_string_equal(token.holder, "");
	put_list(path, ":2001-01-01", ""); /* one of alice's has expired */
	assert_false(admits(&token, path, "two"));
	assert_true(admits(&token, path, "one"));
	unlink(path);
}

static void a_wrong_line_is_found_and_admits_no_one(void **state)
{
	char why[CK_TOKEN_WHY];
	char path[] = "/tmp/cricket-token-XXXXXX";
	struct cks_token token = {.known = false};
	char text[4096] = "";
	unsigned int line;
	FILE *f;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	put_list(path, "", "carol:12ab\n");
	f = fopen(path, "r");
	assert_non_null(f);
	assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
	fclose(f);
	assert_int_equal(ck_token_file_check(text, strlen(text), &line), -EINVAL);
	assert_int_equal(line, 6);
	assert_int_equal(cks_token_check(path, why), -EINVAL);
	assert_false(admits(&token, path, "one"));
	put_list(path, ":2026-02-30x", "");
	assert_int_equal(cks_token_check(path, why), -EINVAL);
	put(path, "# all of them revoked\n");
	assert_int_equal(cks_token_check(path, why), 0);
	assert_false(admits(&token, path, "# all of them revoked"));
	unlink(path);
	assert_int_equal(cks_token_check(path, why), -ENOENT);
}

static void a_line_of_a_list_with_another_mark_is_no_secret(void **state)
{
	static const char hash[] =
		"894b245c33b54bae0aa912396282c7de2258ed81807a5634a006ea8433b01993";
	static const char *const wrong[] = {"alice %s", "alice\t%s", "alice=%s",  "alice%s", " %s",
					    "%s alice", "alice:%s:", "alice: %s", "\"%s\""};
	char text[256];
	unsigned int line;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		size_t before = strcspn(wrong[i], "%");

		snprintf(text, sizeof(text), "%.*s%s%s\n", (int)before, wrong[i], hash,
			 wrong[i] + before + 2);
		if (ck_token_file_check(text, strlen(text), &line) != -EINVAL)
			fail_msg("a secret: %s", text);
	}
	/* as `xxd -p` writes 32 bytes, and as a password manager writes words */
	assert_int_equal(ck_token_file_check(hash, strlen(hash), &line), CK_TOKEN_FILE_SECRET);
	assert_int_equal(ck_token_file_check("four words of it", 16, &line), CK_TOKEN_FILE_SECRET);
}

static void a_hello_is_judged_by_protocol_and_token(void **state)
{
	const struct cks_options options = {.token_file = NULL};
	struct cks_token token = {.known = false};
	ck_hello_args args = {.protocol = CK_PROTOCOL + 1, .release = (char *)"9.9"};
	char why[CK_WHY_SIZE];

	(void)state;
	setenv("CRICKET_TOKEN", "sesame", 1);
	assert_int_equal(cks_hello_check(&options, &token, -1, &args, why), CK_REFUSED_PROTOCOL);
	assert_non_null(strstr(why, "client 9.9 speaks protocol"));
	args.protocol = CK_PROTOCOL;
	assert_int_equal(cks_hello_check(&options, &token, -1, &args, why), CK_REFUSED_TOKEN);
	assert_non_null(strstr(why, "CRICKET_TOKEN"));
	args.token.token_val = (char *)"sesame";
	args.token.token_len = 6;
	assert_int_equal(cks_hello_check(&options, &token, -1, &args, why), CK_REFUSALS);
	unsetenv("CRICKET_TOKEN");
	args.token.token_len = 0;
	assert_int_equal(cks_hello_check(&options, &token, -1, &args, why), CK_REFUSALS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_peer_is_an_address_or_a_user),
		cmocka_unit_test(a_network_has_a_name_of_its_own),
		cmocka_unit_test(a_changed_token_counts_at_once),
		cmocka_unit_test(a_token_that_has_not_changed_is_not_read_again),
		cmocka_unit_test(a_list_of_tokens_tells_the_holder),
		cmocka_unit_test(a_wrong_line_is_found_and_admits_no_one),
		cmocka_unit_test(a_line_of_a_list_with_another_mark_is_no_secret),
		cmocka_unit_test(a_hello_is_judged_by_protocol_and_token),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
