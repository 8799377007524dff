/*
 * command/login.c - `cricket login`: keep the token of a server, and install its client.
 *
 * The token is read from standard input and is never an argument, which other users could see in the list of
 * processes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "command/command.h"
#include "command/install.h"
#include "command/server.h"
#include "command/token.h"

static const struct option options[] = {{"remove", no_argument, NULL, 'r'},
					{"install", optional_argument, NULL, 'i'},
					{NULL, 0, NULL, 0}};

/* Read a line of standard input, which a terminal does not show. */
static int ask(const char *server, char out[CKX_TOKEN])
{
	struct termios shown, hidden;
	bool terminal = tcgetattr(STDIN_FILENO, &shown) == 0;
	const char *line;

	if (terminal) {
		hidden = shown;
		hidden.c_lflag &= ~(tcflag_t)ECHO;
		tcsetattr(STDIN_FILENO, TCSAFLUSH,
			  &hidden); /* drops what came before the question */
		fprintf(stderr, "Token of %s: ", server);
	}
	line = fgets(out, CKX_TOKEN, stdin);
	if (terminal) {
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
		fputc('\n', stderr);
	}
	if (line && !strchr(out, '\n') && strlen(out) == CKX_TOKEN - 1)
		return ckx_error("the token is longer than %d bytes", CKX_TOKEN - 1), -EINVAL;
	out[line ? strcspn(out, "\r\n") : 0] = '\0';
	return out[0] ? 0 : (ckx_error("no token on standard input"), -EINVAL);
}

static int forget(const struct ckx_server *server, const char *text)
{
	int ret = ckx_token_keep(server->address, NULL);

	if (ret == -ENOENT)
		return ckx_error("there is no token for %s", text);
	return ret == 0 ? CKX_OK : CKX_FAILED;
}

/* Ask for the token of @server, and keep it. */
static int keep(struct ckx_server *server, const char *text)
{
	int ret = ask(text, server->token);

	if (ret == 0)
		ret = ckx_token_keep(server->address, server->token);
	if (ret == 0)
		printf("The token of %s is stored.\n", text);
	return ret;
}

/* The token is asked for only where the server wants another than is known. */
static int install(const char *name, const char *prefix)
{
	struct ckx_server server;
	char text[2 * CKX_TEXT + 8];
	int ret;

	if (ckx_server_find(name, &server) < 0)
		return CKX_FAILED;
	ckx_server_text(&server, text);
	ret = ckx_install(&server, prefix);
	if (ret == -EACCES && server.address[0]) {
		ret = keep(&server, text);
		if (ret == 0)
			ret = ckx_install(&server, prefix);
	}
	if (ret == -EACCES)
		ckx_error("%s refuses the token", text);
	explicit_bzero(server.token, sizeof(server.token));
	return ret == 0 ? CKX_OK : CKX_FAILED;
}

int ckx_login(const struct ckx_command *self, int argc, char **argv)
{
	struct ckx_server server;
	char file[CKX_TEXT], text[2 * CKX_TEXT + 8];
	const char *prefix = NULL;
	int option = -1, next, ret;

	/* to the end, or a server's name before the options is not behind them */
	while ((next = getopt_long(argc, argv, "ri::", options, NULL)) != -1) {
		if (next == '?' || (option != -1 && option != next))
			return ckx_usage(self);
		option = next;
		prefix = optarg;
	}
	if (argc - optind > 1)
		return ckx_usage(self);
	if (option == 'i')
		return install(argv[optind], prefix);
	if (ckx_server_name(argv[optind], &server, file) < 0)
		return CKX_FAILED;
	ckx_server_text(&server, text);
	if (!server.address[0] || strpbrk(server.address, " \t\r\n"))
		return ckx_error("no server is named: cricket login SERVER"), CKX_USAGE;
	if (option == 'r')
		return forget(&server, text);
	if (file[0])
		return ckx_error("%s has its token in %s", text, file);
	ret = keep(&server, text);
	explicit_bzero(server.token, sizeof(server.token));
	return ret == 0 ? CKX_OK : CKX_FAILED;
}
