/*
 * tests/unit/test_server_identity.c - on whose behalf a session runs.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/session/identity.h"
#include "util/util.h"

static bool same(const struct cks_identity *a, const struct cks_identity *b)
{
	return ck_hash_equal(&a->key, &b->key);
}

/* The server's end of a connection from @host of this machine. */
static int connection_from(uint32_t host)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
	int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0),
	    fd;
	socklen_t size = sizeof(any);

	assert_int_equal(bind(listener, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&any, &size), 0);
	assert_int_equal(bind(client, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&any, sizeof(any)), 0);
	fd = accept(listener, NULL, NULL);
	assert_true(fd >= 0);
	close(listener);
	return fd; /* the client's end stays open until the process ends */
}

static void a_unix_socket_tells_the_user_whatever_the_token(void **state)
{
	struct cks_identity a, b;
	const struct passwd *user = getpwuid(getuid());
	char expected[64];
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	cks_identity_of(pair[0], NULL, 0, &a);
	cks_identity_of(pair[1], "secret", 6, &b);
	if (user)
		snprintf(expected, sizeof(expected), "user %s", user->pw_name);
	else
		snprintf(expected, sizeof(expected), "user %lu", (unsigned long)getuid());
	assert_string_equal(a.name, expected);
	assert_true(same(&a, &b));
	close(pair[0]);
	close(pair[1]);
}

static void a_token_tells_its_holder_wherever_he_is(void **state)
{
	int fd = connection_from(0x7f000001), other = connection_from(0x7f000002);
	struct cks_identity a, b, c;

	(void)state;
	cks_identity_of(fd, "secret", 6, &a);
	cks_identity_of(other, "secret", 6, &b);
	cks_identity_of(fd, "Secret", 6, &c);
	assert_true(same(&a, &b));
	assert_false(same(&a, &c));
	assert_null(strstr(a.name, "ecret")); /* names go to logs */
	close(fd);
	close(other);
}

static void without_a_token_the_address_tells_and_not_the_port(void **state)
{
	int fd[3] = {connection_from(0x7f000001), connection_from(0x7f000001),
		     connection_from(0x7f000002)};
	struct cks_identity i[3];

	(void)state;
	for (int n = 0; n < 3; n++) {
		cks_identity_of(fd[n], NULL, 0, &i[n]);
		close(fd[n]);
	}
	assert_string_equal(i[0].name, "address 127.0.0.1");
	assert_true(same(&i[0], &i[1]));
	assert_false(same(&i[0], &i[2]));
}

static void kinds_do_not_mix(void **state)
{
	struct cks_identity user, token;
	int pair[2], fd = connection_from(0x7f000001);

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	cks_identity_of(pair[0], NULL, 0, &user);
	cks_identity_of(fd, user.name, strlen(user.name), &token);
	assert_false(same(&user, &token));
	close(fd);
}

static void a_certificate_is_no_token_of_its_name(void **state)
{
	char one[64] = {0}, other[64] = {0};
	int fd = connection_from(0x7f000001);
	struct cks_identity a, b;

	(void)state;
	cks_identity_of_holder(fd, "alice", &a);
	cks_identity_of_certificate("alice", &b);
	assert_string_equal(a.name, "alice");
	assert_string_equal(b.name, "certificate alice");
	assert_false(same(&a, &b));
	memset(one, 'a', 63); /* the longest names, which differ in their last letter */
	memset(other, 'a', 62);
	other[62] = 'b';
	cks_identity_of_certificate(one, &a);
	cks_identity_of_certificate(other, &b);
	assert_memory_equal(a.name, "certificate aaaaa", 17);
	assert_string_not_equal(a.name, b.name);
	close(fd);
}

static void all_spellings_of_an_address_have_one_key(void **state)
{
	static const char *const spellings[] = {"127.0.0.1", "::ffff:127.0.0.1", "[::ffff:7f00:1]"};
	int fd = connection_from(0x7f000001);
	struct cks_identity identity;
	struct ck_hash key;

	(void)state;
	cks_identity_of(fd, NULL, 0, &identity);
	for (size_t i = 0; i < CK_ARRAY_SIZE(spellings); i++) {
		assert_true(cks_identity_key_of_address(spellings[i], &key));
		assert_true(ck_hash_equal(&identity.key, &key));
	}
	assert_false(cks_identity_key_of_address("gpuhost", &key));
	close(fd);
}

static void a_peer_that_is_not_known_shares_with_nobody(void **state)
{
	struct cks_identity a, b;

	(void)state;
	cks_identity_of(-1, NULL, 0, &a);
	cks_identity_of(-1, NULL, 0, &b);
	assert_false(same(&a, &b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_unix_socket_tells_the_user_whatever_the_token),
		cmocka_unit_test(a_token_tells_its_holder_wherever_he_is),
		cmocka_unit_test(without_a_token_the_address_tells_and_not_the_port),
		cmocka_unit_test(kinds_do_not_mix),
		cmocka_unit_test(a_certificate_is_no_token_of_its_name),
		cmocka_unit_test(all_spellings_of_an_address_have_one_key),
		cmocka_unit_test(a_peer_that_is_not_known_shares_with_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
