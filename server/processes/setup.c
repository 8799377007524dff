/*
 * server/processes/setup.c - see setup.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rpc/tls.h"
#include "server/processes/setup.h"
#include "util/address.h"
#include "util/holders_edit.h"
#include "util/server_files.h"

/* What is made. */
struct setup {
	struct ck_server_files files;
	char cert[CK_SERVER_FILES_PATH], key[CK_SERVER_FILES_PATH];
	char pin[CK_TLS_PIN];
	char token[CK_HOLDER_TOKEN]; /* empty: the list has some already */
};

static int fail(int error, const char *what, const char *why)
{
	fprintf(stderr, "cricket-rpc-server: --setup: %s%s%s\n", what, *what ? ": " : "", why);
	return error;
}

/* Who has the first token: the user who became root, or this one. */
static const char *own_name(void)
{
	const char *name = getenv("SUDO_USER");
	const struct passwd *user = getpwuid(geteuid());

	if (geteuid() == 0 && name && ck_holders_is_name(name, strlen(name)))
		return name;
	return user && ck_holders_is_name(user->pw_name, strlen(user->pw_name)) ? user->pw_name
										: "first";
}

/* The pin of the certificate that is there. */
static int read_certificate(struct setup *s)
{
	const struct ck_tls_files files = {.cert = s->cert, .key = s->key};
	char why[CK_TLS_WHY];
	struct ck_tls *tls;
	int ret = ck_tls_create_server(&files, &tls, why);

	if (ret < 0)
		return fail(ret, "", why);
	ret = ck_tls_own_pin(tls, s->pin) ? 0 : -EINVAL;
	ck_tls_destroy(tls);
	return ret;
}

static int make_certificate(struct setup *s, const char *host)
{
	char own[HOST_NAME_MAX + 1] = "localhost", why[CK_TLS_WHY];
	char *names[] = {(char *)(uintptr_t)host, own, (char *)"localhost", (char *)"127.0.0.1",
			 (char *)"::1"};
	int ret;

	if (access(s->cert, F_OK) == 0 && access(s->key, F_OK) == 0)
		return read_certificate(s);
	gethostname(own, sizeof(own) - 1);
	ret = ck_tls_new_certificate(s->files.tls, names, sizeof(names) / sizeof(names[0]), s->pin,
				     why);
	return ret < 0 ? fail(ret, "", why) : 0;
}

/* The first token, if the list has none. */
static int make_token(struct setup *s, const char *name)
{
	static char text[CK_HOLDERS_MAX];
	const char *path = s->files.tokens;
	unsigned int line;
	int ret = ck_holders_read(path, text, &line);

	s->token[0] = '\0';
	if (ret == 0 && !strchr(text, ':'))
		ret = ck_holders_add(path, 0600, name, NULL, s->token, &line);
	if (ret < 0 && line)
		fprintf(stderr, "cricket-rpc-server: --setup: %s:%u: %s\n", path, line,
			CK_HOLDERS_WRONG);
	else if (ret < 0)
		fail(ret, path,
		     ret == -EINVAL ? "it is a single secret, not a list" : strerror(-ret));
	return ret;
}

static int share(const struct setup *s)
{
	const char *const paths[] = {s->cert, s->key, s->files.tokens};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		int ret = ck_server_files_share(&s->files, paths[i]);

		if (ret < 0)
			return fail(ret, paths[i], strerror(-ret));
	}
	return 0;
}

/* A word of a command for the shell. */
static void print_word(const char *word)
{
	if (!word[strspn(word,
			 "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-")]) {
		fputs(word, stdout);
		return;
	}
	putchar('\'');
	for (; *word; word++)
		*word == '\'' ? fputs("'\\''", stdout) : putchar(*word);
	putchar('\'');
}

static void print_options(const struct setup *s)
{
	printf("--listen 0.0.0.0:%d --token-file ", CK_DEFAULT_PORT);
	print_word(s->files.tokens);
	printf(" --tls-cert ");
	print_word(s->cert);
	printf(" --tls-key ");
	print_word(s->key);
}

static void print(const struct setup *s, const char *program, const char *host)
{
	printf("Certificate, key and tokens are in %s.\n\n", s->files.folder);
	if (s->files.service)
		printf("1. Start the server: put this line into /etc/cricket/server.env, and run\n"
		       "   systemctl restart " CK_SERVICE "\n\n     OPTIONS=");
	else
		printf("1. Start the server:\n\n     "), print_word(program), putchar(' ');
	print_options(s);
	printf("\n\n2. On the client, run this; it asks for the token:\n\n"
	       "     cricket login %s#%s\n\n",
	       host, s->pin);
	if (s->token[0])
		printf("   token: %s\n\n", s->token);
	else
		printf("   The list has tokens already; only their hashes are stored.\n\n");
	printf("A token for another user: cricket token add NAME\n");
}

int cks_setup(const char *program, const char *host, const char *name)
{
	struct setup s = {.token = ""};
	char own[HOST_NAME_MAX + 1] = "localhost";
	int ret = ck_server_files_find(&s.files);

	if (ret < 0)
		return fail(ret, "the user's folder for configuration", strerror(-ret));
	gethostname(own, sizeof(own) - 1);
	host = host ? host : own;
	name = name ? name : own_name();
	if (!ck_holders_is_name(name, strlen(name)))
		return fail(-EINVAL, name, "not a name of letters, digits and .-_@");
	snprintf(s.cert, sizeof(s.cert), "%s/" CK_TLS_CERT_FILE, s.files.tls);
	snprintf(s.key, sizeof(s.key), "%s/" CK_TLS_KEY_FILE, s.files.tls);
	ret = ck_server_files_make(&s.files);
	if (ret < 0)
		return fail(ret, s.files.tls, strerror(-ret));
	ret = make_certificate(&s, host);
	if (ret == 0)
		ret = make_token(&s, name);
	if (ret == 0)
		ret = share(&s);
	if (ret == 0)
		print(&s, program, host);
	explicit_bzero(s.token, sizeof(s.token));
	return ret;
}
