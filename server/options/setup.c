/*
 * server/options/setup.c - see setup.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rpc/tls.h"
#include "server/options/announce.h"
#include "server/options/option_table.h"
#include "server/options/options.h"
#include "server/options/setup.h"
#include "util/address/address.h"
#include "util/address/server_files.h"
#include "util/address/token_file_edit.h"
#include "util/process/home.h"

#define CK_SETUP_NAMES 32
#define CK_POLICY "/etc/cricket/policy"
#define CK_AUDIT "/var/log/cricket/audit" /* the unit makes this folder */

/* The new files, and tokens. */
struct setup {
	struct ck_server_files files;
	char cert[CK_SERVER_FILES_PATH], key[CK_SERVER_FILES_PATH];
	char pin[CK_TLS_PIN];
	struct made {
		const char *name;
		char token[CK_HOLDER_TOKEN];
	} made[CK_SETUP_NAMES]; /* the tokens of names that had none */
	size_t made_count;
	bool configured; /* the service's file has the options */
};

static int report_error(int error, const char *what, const char *why)
{
	fprintf(stderr, "cricket-rpc-server: --setup: %s%s%s\n", what, *what ? ": " : "", why);
	return error;
}

/* Who has the first token: the user who became root, or this one. */
static const char *own_name(void)
{
	const char *name = getenv("SUDO_USER");
	const struct passwd *user = getpwuid(geteuid());

	if (geteuid() == 0 && name && ck_token_file_is_name(name, strlen(name)))
		return name;
	return user && ck_token_file_is_name(user->pw_name, strlen(user->pw_name)) ? user->pw_name
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
		return report_error(ret, "", why);
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
	return ret < 0 ? report_error(ret, "", why) : 0;
}

/* A token for each of @names that has none; for the @usual name only if there are no tokens at
 * all. */
static int make_tokens(struct setup *s, char *const *names, size_t count, bool usual)
{
	static char text[CK_TOKEN_FILE_SIZE];
	const char *path = s->files.tokens;
	unsigned int line = 0;
	int ret = ck_token_file_read(path, text, &line);

	for (size_t i = 0; ret == 0 && i < count; i++) {
		struct made *m = &s->made[s->made_count];

		if (ck_token_file_has(text, names[i]) || (usual && strchr(text, ':')))
			continue;
		m->name = names[i];
		ret = ck_token_file_add(path, 0600, names[i], NULL, m->token, &line);
		s->made_count += ret == 0;
	}
	if (ret < 0 && line)
		fprintf(stderr, "cricket-rpc-server: --setup: %s:%u: %s\n", path, line,
			CK_TOKEN_FILE_WRONG);
	else if (ret < 0)
		report_error(ret, path,
			     ret == -EINVAL ? "it is a single secret, not a list" : strerror(-ret));
	return ret;
}

static int share_files(const struct setup *s)
{
	const char *const paths[] = {s->cert, s->key, s->files.tokens};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		int ret = ck_server_files_share(&s->files, paths[i]);

		if (ret < 0)
			return report_error(ret, paths[i], strerror(-ret));
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

/* Does the service's file @path set any of the options that would be added? Wrong lines are
 * printed. */
static bool is_configured(const char *path)
{
	static const char *const ours[] = {"listen", "token-file", "tls-cert", "tls-key"};
	static struct cks_options options;
	bool set = false;
	char may_lack[CK_SERVER_FILES_PATH + 1];

	snprintf(may_lack, sizeof(may_lack), "-%s", path);
	if (cks_options_read(&options, may_lack) < 0)
		return true;
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		set |= cks_options_gives(&options, ours[i]);
	return set;
}

/* A policy that grants all, for an administrator to change. */
static int make_policy(void)
{
	FILE *f = fopen(CK_POLICY, "wex");

	if (!f)
		return errno == EEXIST ? 0 : report_error(-errno, CK_POLICY, strerror(errno));
	fprintf(f, "# What each identity may have; an example: "
		   "/usr/share/doc/cricket-server/examples/policy.\n"
		   "# `systemctl reload " CK_SERVICE "` reads this file again.\n"
		   "default: {\n};\nidentities: (\n);\n");
	return fclose(f) == 0 ? 0 : report_error(-EIO, CK_POLICY, strerror(errno));
}

/* Add the options to the service's file. */
static int configure_service(struct setup *s)
{
	char path[CK_SERVER_FILES_PATH];
	FILE *f;
	int ret;

	snprintf(path, sizeof(path), "%s/server.conf", s->files.folder);
	if (!s->files.service || is_configured(path))
		return 0;
	ret = make_policy();
	f = ret == 0 ? fopen(path, "ae") : NULL;
	if (ret == 0 && !f)
		ret = report_error(-errno, path, strerror(errno));
	if (ret < 0)
		return ret;
	fprintf(f,
		"\n# --- by cricket-rpc-server --setup\n\nlisten = 0.0.0.0:%d\ntoken-file = %s\n"
		"tls-cert = %s\ntls-key = %s\npolicy = " CK_POLICY "\naudit = " CK_AUDIT "\n",
		CK_DEFAULT_PORT, s->files.tokens, s->cert, s->key);
	s->configured = true;
	return fclose(f) == 0 ? 0 : report_error(-EIO, path, strerror(errno));
}

static void print_steps(const struct setup *s, const char *program, const char *host)
{
	printf("Certificate, key and tokens are in %s.\n\n", s->files.folder);
	if (s->configured)
		printf("1. Start the server with its new options, which are in %s/server.conf:\n\n"
		       "     systemctl restart " CK_SERVICE,
		       s->files.folder);
	else if (s->files.service)
		printf("1. %s/server.conf has options already, which stay. Those for these "
		       "files:\n\n"
		       "     ",
		       s->files.folder),
			print_options(s);
	else
		printf("1. Start the server:\n\n     "), print_word(program), putchar(' '),
			print_options(s);
	printf("\n\n2. On the client, run this; it asks for the token:\n\n"
	       "     cricket login %s#%s\n\n",
	       host, s->pin);
	for (size_t i = 0; i < s->made_count; i++)
		printf("   token%s%s: %s\n", s->made_count > 1 ? " of " : "",
		       s->made_count > 1 ? s->made[i].name : "", s->made[i].token);
	if (s->made_count == 0)
		printf("   The list has tokens already; only their hashes are stored.\n");
	printf("\nA token for another user: cricket token add NAME\n");
}

/* The port at which the server listens, or will: of its first address. */
static int find_port(const struct setup *s)
{
	static struct cks_options options;
	struct ck_address address;
	char path[CK_SERVER_FILES_PATH + 1], why[CK_ADDRESS_WHY];
	size_t listen = cks_option_find("listen");

	snprintf(path, sizeof(path), "-%s/server.conf", s->files.folder);
	if (!s->files.service || cks_options_read(&options, path) < 0)
		return CK_DEFAULT_PORT;
	for (size_t i = 0; i < options.given_count; i++) {
		if (options.given[i].index == listen &&
		    ck_address_parse(options.given[i].value, &address, why) == 0 &&
		    address.kind == CK_ADDRESS_TCP && address.port > 0)
			return address.port;
	}
	return CK_DEFAULT_PORT;
}

static int announce(const struct setup *s, const char *word)
{
	bool yes = strcmp(word, "yes") == 0;
	int ret = yes ? cks_announce_begin(find_port(s), s->pin) : cks_announce_end();

	if (ret < 0)
		return report_error(ret, CK_ANNOUNCE_FILE,
				    ret == -ENOENT ? "there is no folder: install avahi-daemon"
						   : strerror(-ret));
	if (yes)
		printf("\nAvahi announces the server on the local network: cricket servers "
		       "--lan\n");
	return 0;
}

int cks_setup(const char *program, const char *announced, char *const *words, size_t count)
{
	struct setup s = {.made_count = 0};
	char own[HOST_NAME_MAX + 1] = "localhost", *usual[] = {(char *)(uintptr_t)own_name()};
	const char *host = count > 0 ? words[0] : own;
	char *const *names = count > 1 ? words + 1 : usual;
	int ret = ck_server_files_find(&s.files);

	if (ret < 0)
		return report_error(ret, "the user's folder",
				    ret == -ENOENT ? CK_HOME_NONE : strerror(-ret));
	if (announced && strcmp(announced, "yes") != 0 && strcmp(announced, "no") != 0)
		return report_error(-EINVAL, "--announce", "not yes or no");
	if (s.files.service)
		umask(022); /* the service, which is not root, reads the new files */
	gethostname(own, sizeof(own) - 1);
	if (!ck_tls_is_host(host))
		return report_error(-EINVAL, host, "not the name or the address of a host");
	count = count > 1 ? count - 1 : 1;
	if (count > CK_SETUP_NAMES)
		return report_error(-EINVAL, "too many names",
				    "make further tokens with `cricket token`");
	for (size_t i = 0; i < count; i++) {
		if (!ck_token_file_is_name(names[i], strlen(names[i])))
			return report_error(-EINVAL, names[i],
					    "not a name of letters, digits and .-_@");
	}
	snprintf(s.cert, sizeof(s.cert), "%s/" CK_TLS_CERT_FILE, s.files.tls);
	snprintf(s.key, sizeof(s.key), "%s/" CK_TLS_KEY_FILE, s.files.tls);
	ret = ck_server_files_make(&s.files);
	if (ret < 0)
		return report_error(ret, s.files.tls, strerror(-ret));
	ret = make_certificate(&s, host);
	if (ret == 0)
		ret = make_tokens(&s, names, count, names == usual);
	if (ret == 0)
		ret = share_files(&s);
	if (ret == 0)
		ret = configure_service(&s);
	if (ret == 0)
		print_steps(&s, program, host);
	if (ret == 0 && announced)
		ret = announce(&s, announced);
	explicit_bzero(s.made, sizeof(s.made));
	return ret;
}
