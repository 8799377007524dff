/*
 * command/login/login.c - `cricket login`: keep whom to trust and which token to send to a server,
 * and install its client.
 *
 * The token is read from standard input and is never an argument, which other users could see in
 * the list of processes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/config/server.h"
#include "command/config/token_store.h"
#include "command/login/login.h"
#include "command/servers/fleet.h"
#include "command/servers/offer.h"
#include "util/address/address.h"
#include "util/address/servers.h"
#include "util/text.h"
#include "util/util.h"

static const struct option options[] = {{"remove", no_argument, NULL, 'r'},
					{"install", optional_argument, NULL, 'i'},
					{NULL, 0, NULL, 0}};

static struct termios shown; /* the terminal as it was */

/* Show typed characters again, and end by @signal. */
static void end_shown(int signal)
{
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
	raise(signal); /* its default action is back, and follows when this handler returns */
}

/* Read a line from the terminal, which does not show it. */
static const char *read_hidden(const char *server, char out[CKX_TOKEN])
{
	static const int ends[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP};
	const struct sigaction show = {.sa_handler = end_shown, .sa_flags = (int)SA_RESETHAND};
	struct sigaction before[CK_ARRAY_SIZE(ends)];
	struct termios hidden = shown;
	const char *line;

	for (size_t i = 0; i < CK_ARRAY_SIZE(ends); i++) {
		if (sigaction(ends[i], &show, &before[i]) == 0 && before[i].sa_handler == SIG_IGN)
			sigaction(ends[i], &before[i], NULL);
	}
	hidden.c_lflag &= ~(tcflag_t)ECHO;
	/* drops input from before the question */
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
	fprintf(stderr, "Token of %s: ", server);
	line = fgets(out, CKX_TOKEN, stdin);
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
	fputc('\n', stderr);
	for (size_t i = 0; i < CK_ARRAY_SIZE(ends); i++)
		sigaction(ends[i], &before[i], NULL);
	return line;
}

/* Read a line of standard input, without white space around it, which a copied token may have. */
static int read_token(const char *server, char out[CKX_TOKEN])
{
	bool terminal = tcgetattr(STDIN_FILENO, &shown) == 0;
	const char *line = terminal ? read_hidden(server, out) : fgets(out, CKX_TOKEN, stdin);
	size_t length;

	if (line && !strchr(out, '\n') && strlen(out) == CKX_TOKEN - 1)
		return ckx_error("the token is longer than %d bytes", CKX_TOKEN - 1), -EINVAL;
	if (!line)
		out[0] = '\0';
	line = ck_text_trim(out);
	length = strlen(line);
	memmove(out, line, length);
	explicit_bzero(out + length, CKX_TOKEN - length);
	return out[0] ? 0 : (ckx_error("no token on standard input"), -EINVAL);
}

/* One run of the command. */
struct login {
	struct ckx_server server;
	char token_file[CKX_TEXT]; /* of the server's section; empty: none */
	char text[2 * CKX_TEXT + 8];
	bool changed; /* whom to trust is to be kept */
};

static int forget_token(const struct login *l)
{
	int ret = ckx_token_keep(l->server.address, NULL);

	if (ret == -ENOENT)
		return ckx_error("there is no token for %s", l->text);
	return ret == 0 ? CKX_OK : CKX_FAILED;
}

/* Is the token that of one server? -EACCES: no, printed; -errno. */
static int check_one(const struct ckx_server *server, const char *text)
{
	struct ckx_offer *offer = malloc(sizeof(*offer));
	int ret = 0;

	if (!offer)
		return ckx_error("out of memory"), -ENOMEM;
	ckx_offer_ask(server, offer);
	if (offer->admission == CKX_ADMISSION_DENIED)
		ckx_error("%s refuses this token, so it is not stored: %s", text, offer->why);
	else if (offer->admission == CKX_ADMISSION_UNKNOWN)
		ckx_error("%s: %s; nothing is stored", text, offer->why);
	else if (offer->admission == CKX_ADMISSION_OLD)
		ckx_error("%s: its release is too old to check the token", text);
	if (offer->admission == CKX_ADMISSION_DENIED)
		ret = -EACCES;
	else if (offer->admission == CKX_ADMISSION_UNKNOWN)
		ret = -EHOSTUNREACH;
	free(offer);
	return ret;
}

/* Of several servers, that of each: one that does not answer could be anyone's later. */
static int check_token(const struct login *l)
{
	struct ckx_fleet *fleet;
	int ret;

	if (!ckx_fleet_is(l->server.address))
		return check_one(&l->server, l->text);
	fleet = calloc(1, sizeof(*fleet));
	ret = fleet ? ckx_fleet_find(&l->server, fleet) : -ENOMEM;
	for (size_t i = 0; ret == 0 && i < fleet->count; i++)
		ret = check_one(&fleet->list[i]->server, fleet->list[i]->server.address);
	if (fleet)
		ckx_fleet_free(fleet);
	free(fleet);
	return ret;
}

/* A name for the section of an address: its host, if no section of another server has it. */
static void name_section(const struct ckx_config *config, const char *address, char out[CKX_TEXT])
{
	char canonical[2 * CK_ADDRESS_MAX], why[CK_ADDRESS_WHY];
	const struct ckx_entry *same;
	struct ck_address a;

	if (ck_address_canonical(address, canonical, sizeof(canonical)) < 0 ||
	    ck_address_parse(canonical, &a, why) < 0 || a.kind != CK_ADDRESS_TCP) {
		snprintf(out, CKX_TEXT, "%s", address);
		return;
	}
	snprintf(out, CKX_TEXT, "%s", a.host);
	same = ckx_config_find(config, out);
	if (a.port != CK_DEFAULT_PORT || (same && !ck_address_same(same->address, address)))
		snprintf(out, CKX_TEXT, "%.200s:%d", a.host, a.port);
}

/* Write whom to trust into the server's section, which may be a new one. */
static int keep_section(const struct login *l)
{
	struct ckx_config *config = malloc(sizeof(*config));
	struct ckx_entry entry = {.file = NULL};
	const struct ckx_entry *known;
	int ret = config ? ckx_config_read(config) : -ENOMEM;

	if (ret == 0) {
		known = l->server.name[0] ? ckx_config_find(config, l->server.name)
					  : ckx_config_find_address(config, l->server.address);
		if (known)
			entry = *known;
		else
			name_section(config, l->server.address, entry.name);
		if (!known)
			snprintf(entry.address, sizeof(entry.address), "%s", l->server.address);
		entry.tls = l->server.tls;
		ret = ckx_config_keep(&entry);
	}
	if (ret == 0)
		printf("Its key is stored in the section [%s] of ~/.config/cricket/config.\n",
		       entry.name);
	free(config);
	return ret;
}

/* Ask for the token, check it, and keep it, with whom to trust. */
static int store_token(struct login *l)
{
	int ret = read_token(l->text, l->server.token);

	if (ret == 0)
		ret = check_token(l);
	if (ret == 0)
		ret = ckx_token_keep(l->server.address, l->server.token);
	if (ret == 0)
		printf("The token of %s is stored%s.\n", l->text,
		       strchr(l->server.address, ',') && !l->server.name[0]
			       ? ", for this list as it is written: not for its servers alone"
			       : "");
	return ret;
}

/* The token is asked for only where the server wants another than is known. */
static int install_client(struct login *l, const char *pins, const char *prefix)
{
	int ret = ckx_trust(&l->server, pins, l->text, &l->changed);

	if (ret == 0)
		ret = ckx_install(&l->server, prefix);
	if (ret == -EACCES && l->server.address[0]) {
		ret = store_token(l);
		if (ret < 0)
			return ret;
		ret = ckx_install(&l->server, prefix);
	}
	if (ret == -EACCES)
		ckx_error("%s refuses the token", l->text);
	if (ret == 0 && l->changed)
		ret = keep_section(l);
	return ret;
}

static int log_in(struct login *l, const char *pins)
{
	int ret = ckx_trust(&l->server, pins, l->text, &l->changed);

	if (ret < 0)
		return ret;
	if (l->token_file[0] && !l->changed)
		return ckx_error("%s has its token in %s", l->text, l->token_file), -EEXIST;
	if (!l->token_file[0])
		ret = store_token(l);
	if (ret == 0 && l->changed)
		ret = keep_section(l);
	if (ret == 0)
		printf("Try it: cricket check %s\n",
		       l->server.name[0] ? l->server.name : l->server.address);
	return ret;
}

/* The pins behind the "#" of @name, which ends there; NULL: there are none. */
static const char *take_pins(char *name)
{
	char *pins = name ? strrchr(name, '#') : NULL;

	if (pins)
		*pins++ = '\0';
	return pins;
}

/* Key and token are those of the whole server. */
static void drop_devices(struct ckx_server *server)
{
	static struct ck_server_list list;
	char why[CK_ADDRESS_WHY];

	if (ck_servers_parse(server->address, &list, why) == 0 && list.count == 1)
		strcpy(server->address, list.entries[0].address);
}

/* @name: the server; @option: r, i or -1. */
static int run_login(struct login *l, char *name, int option, const char *prefix)
{
	const char *pins = take_pins(name);

	if (pins && (option == 'r' || !*pins))
		return ckx_error("there is no pin behind the #, or it is not needed"), CKX_USAGE;
	if (option == 'i' ? ckx_server_find(name, &l->server) < 0
			  : ckx_server_name(name, &l->server, l->token_file) < 0)
		return CKX_FAILED;
	drop_devices(&l->server);
	ckx_server_text(&l->server, l->text);
	if (option == 'i')
		return install_client(l, pins ? pins : "", prefix) == 0 ? CKX_OK : CKX_FAILED;
	if (!l->server.address[0] || strpbrk(l->server.address, " \t\r\n"))
		return ckx_error("no server is named: cricket login SERVER"), CKX_USAGE;
	if (option == 'r')
		return forget_token(l);
	return log_in(l, pins ? pins : "") == 0 ? CKX_OK : CKX_FAILED;
}

int ckx_login(const struct ckx_command *self, int argc, char **argv)
{
	struct login login = {.changed = false};
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
	ret = run_login(&login, argv[optind], option, prefix);
	explicit_bzero(login.server.token, sizeof(login.server.token));
	return ret;
}
