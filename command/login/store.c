/*
 * command/login/store.c - `cricket put` and `cricket store`: the uploads that a server keeps for
 * this user. The client library does the work, in a session like a program's, without a GPU.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/config/client_library.h"
#include "command/config/command.h"
#include "command/config/server.h"
#include "command/sessions/session.h"
#include "cuda/client_store.h"
#include "util/util.h"

static const struct option options[] = {{"server", required_argument, NULL, 's'},
					{NULL, 0, NULL, 0}};

static struct library {
	int (*put)(const char *path, struct ck_store_report *report);
	int (*read)(struct ck_store_state *state);
	int (*empty)(void);
} library;

static const char *const names[] = {"cricket_store_put", "cricket_store_read",
				    "cricket_store_empty"};

_Static_assert(sizeof(names) == sizeof(library), "a name for each function");

/* Have the client connect to the server that @option names. */
static int choose_server(const char *option, char name[2 * CKX_TEXT + 8])
{
	struct ckx_server server;
	int ret = ckx_server_find(option, &server);

	if (ret < 0)
		return ret;
	ret = ckx_server_one(&server);
	ckx_server_text(&server, name);
	if (ret == 0)
		ret = ckx_client_library_load(&server, names, CK_ARRAY_SIZE(names), &library);
	explicit_bzero(server.token, sizeof(server.token));
	return ret;
}

/* Print why the server's store cannot be used; @about: a file, or the server. */
static int print_error(const char *about, int error)
{
	switch (error) {
	case -ENOTCONN:
		return ckx_error("%s: no session; `cricket check` finds out why", about);
	case -EOPNOTSUPP:
		return ckx_error("%s: the server keeps no uploads: its release is too old, or "
				 "--store-size or the policy's `store` is 0",
				 about);
	case -EFBIG:
		return ckx_error("%s: larger than your store on the server; its administrator may "
				 "raise --store-size or the policy's `store`",
				 about);
	case -ENOSPC:
		return ckx_error("%s: the server's disk is full", about);
	case -EAGAIN:
		return ckx_error("%s: the file was changed meanwhile; repeat the command", about);
	case -EINVAL:
		return ckx_error("%s: not a regular file", about);
	default:
		return ckx_error("%s: %s", about, strerror(-error));
	}
}

static int put_file(const char *path)
{
	struct ck_store_report report;
	int ret = library.put(path, &report);

	if (ret < 0)
		return print_error(path, ret);
	if (report.too_small)
		printf("%s: %llu bytes, too small to be stored\n", path,
		       (unsigned long long)report.size);
	else
		printf("%s: %llu bytes, of which stored already: %llu\n", path,
		       (unsigned long long)report.size, (unsigned long long)report.stored);
	return CKX_OK;
}

int ckx_put(const struct ckx_command *self, int argc, char **argv)
{
	char name[2 * CKX_TEXT + 8];
	int status = CKX_OK;

	/* the server is an argument, as a file could have the name of an option's value */
	if (getopt_long(argc, argv, "", options + 1, NULL) != -1 || argc - optind < 2)
		return ckx_usage(self);
	if (choose_server(argv[optind], name) < 0)
		return CKX_FAILED;
	for (int i = optind + 1; i < argc; i++) {
		if (put_file(argv[i]) != CKX_OK)
			status = CKX_FAILED;
	}
	return status;
}

static int print_store(const char *name)
{
	struct ck_store_state state;
	char bytes[16], limit[16];
	int ret = library.read(&state);

	if (ret < 0)
		return print_error(name, ret);
	printf("%s: %s in %llu chunks, of at most %s\n", name,
	       ckx_bytes((double)state.bytes, bytes), (unsigned long long)state.count,
	       ckx_bytes((double)state.limit, limit));
	return CKX_OK;
}

int ckx_store(const struct ckx_command *self, int argc, char **argv)
{
	const char *server = NULL, *action;
	char name[2 * CKX_TEXT + 8];
	int option, ret;

	while ((option = getopt_long(argc, argv, "s:", options, NULL)) != -1) {
		if (option == '?')
			return ckx_usage(self);
		server = optarg;
	}
	action = argc > optind ? argv[optind] : "list";
	if (argc - optind > 1 || (strcmp(action, "list") != 0 && strcmp(action, "empty") != 0))
		return ckx_usage(self);
	if (choose_server(server, name) < 0)
		return CKX_FAILED;
	if (strcmp(action, "list") == 0)
		return print_store(name);
	ret = library.empty();
	return ret < 0 ? print_error(name, ret) : CKX_OK;
}
