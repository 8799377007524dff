/*
 * command/servers/lan.c - see lan.h.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/servers/lan.h"
#include "util/address/address.h"
#include "util/text.h"
#include "util/until.h"
#include "util/util.h"

#define PROGRAM "avahi-browse"
#define TYPE "_cricket._tcp"
#define TEXT_MOST ((size_t)256 << 10) /* bytes that are read of it */
#define LONGEST_MS 10000	      /* for all hosts to tell their addresses */

/* The fields of a line; a semicolon ends each except the last. */
enum { EVENT, INTERFACE, PROTOCOL, NAME, KIND, DOMAIN, HOST, ADDRESS, PORT, TXT, FIELDS };

/* --- its lines */

static bool split_line(char *line, char *fields[FIELDS])
{
	for (int i = 0; i < FIELDS; i++)
		fields[i] = i < TXT ? strsep(&line, ";") : line;
	return fields[TXT] != NULL;
}

/* The value of three decimal digits; -1: they are none. */
static int decimal_value(const char *text)
{
	int value = 0;

	for (int i = 0; i < 3; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		value = value * 10 + (text[i] - '0');
	}
	return value;
}

/* A label of DNS, in which Avahi writes \. and \\, and other characters as \DDD. */
static bool take_name(const char *text, char *out, size_t room)
{
	size_t n = 0;

	while (*text && n + 1 < room) {
		int value = (unsigned char)*text++;

		if (value == '\\' && *text && !strchr("0123456789", *text)) {
			value = *text++;
		} else if (value == '\\') {
			value = decimal_value(text);
			if (value <= 0 || value > UINT8_MAX)
				return false;
			text += 3;
		}
		out[n++] = (char)value;
	}
	out[n] = '\0';
	ck_text_plain(out, room);
	return n > 0 && !*text;
}

static bool take_interface(const char *text, char *out, size_t room)
{
	for (const char *at = text; *at; at++) {
		if (*at <= ' ' || *at >= 0x7f || strchr("/%[]", *at))
			return false;
	}
	return *text && (size_t)snprintf(out, room, "%s", text) < room;
}

/* An IPv6 address that only one network knows needs the name of the interface. */
static bool take_address(const char *ip, const char *port, struct ckx_lan_server *s)
{
	struct ck_address address;
	struct in6_addr six;
	char why[CK_ADDRESS_WHY];
	bool is_six = inet_pton(AF_INET6, ip, &six) == 1, local;

	if (!is_six && inet_pton(AF_INET, ip, &six) != 1)
		return false;
	local = is_six && IN6_IS_ADDR_LINKLOCAL(&six);
	if (strlen(port) > 5 || port[strspn(port, "0123456789")] ||
	    (size_t)snprintf(s->address, sizeof(s->address), "%s%s%s%s%s:%s", is_six ? "[" : "", ip,
			     local ? "%" : "", local ? s->interface : "", is_six ? "]" : "",
			     port) >= sizeof(s->address))
		return false;
	return ck_address_parse(s->address, &address, why) == 0 && address.kind == CK_ADDRESS_TCP &&
	       address.port > 0;
}

/* Strings in quotation marks, of which one may be pin=PIN. */
static void take_pin(const char *txt, char pin[CK_TLS_PIN])
{
	pin[0] = '\0';
	while (*txt == '"') {
		const char *text = ++txt;
		int size;

		while (*txt && *txt != '"')
			txt += *txt == '\\' && txt[1] ? 2 : 1;
		size = (int)ck_min(txt - text, (ptrdiff_t)CK_TLS_PIN + 4);
		if (strncmp(text, "pin=", 4) == 0 && size < CK_TLS_PIN + 4)
			snprintf(pin, CK_TLS_PIN, "%.*s", size - 4, text + 4);
		txt += *txt == '"';
		txt += *txt == ' ';
	}
	if (!ck_tls_is_pin(pin))
		pin[0] = '\0';
}

static bool is_known(const struct ckx_lan *lan, const struct ckx_lan_server *server)
{
	for (size_t i = 0; i < lan->count; i++) {
		if (strcmp(lan->servers[i].name, server->name) == 0 &&
		    strcmp(lan->servers[i].address, server->address) == 0)
			return true;
	}
	return false;
}

static void take_line(char *line, struct ckx_lan *lan)
{
	struct ckx_lan_server *s = &lan->servers[lan->count];
	char *fields[FIELDS];

	if (lan->count == CKX_LAN_SERVERS || !split_line(line, fields) ||
	    strcmp(fields[EVENT], "=") != 0 || strcmp(fields[KIND], TYPE) != 0)
		return;
	if (!take_name(fields[NAME], s->name, sizeof(s->name)) ||
	    !take_interface(fields[INTERFACE], s->interface, sizeof(s->interface)) ||
	    !take_address(fields[ADDRESS], fields[PORT], s))
		return;
	take_pin(fields[TXT], s->pin);
	lan->count += !is_known(lan, s);
}

void ckx_lan_parse(char *text, struct ckx_lan *lan)
{
	lan->count = 0;
	while (text)
		take_line(strsep(&text, "\n"), lan);
}

/* --- the program */

static int start_program(pid_t *pid)
{
	char *const arguments[] = {(char *)PROGRAM,	  (char *)"--resolve", (char *)"--parsable",
				   (char *)"--terminate", (char *)TYPE,	       NULL};
	posix_spawn_file_actions_t actions;
	int ends[2], ret;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_RDWR, 0);
	ret = posix_spawnp(pid, PROGRAM, &actions, NULL, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	if (ret == 0)
		return ends[0];
	close(ends[0]);
	return -ret;
}

/* Up to TEXT_MOST bytes, until it ends or its time is over; the bytes until then count. True: it
 * has ended. */
static bool read_text(int fd, char *text)
{
	int64_t until = ck_now_ms() + LONGEST_MS, left;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t size = 0;
	ssize_t n = 1;

	while (n > 0 && size < TEXT_MOST && (left = until - ck_now_ms()) > 0) {
		int ready = poll(&p, 1, (int)left);

		if (ready > 0)
			n = read(fd, text + size, TEXT_MOST - size);
		size += ready > 0 && n > 0 ? (size_t)n : 0;
	}
	text[size] = '\0';
	return n == 0;
}

/* 0: it has done its work, or had to be ended. */
static int end_program(pid_t pid, bool ended)
{
	int status = 0;

	if (!ended)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!ended || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
		return 0;
	ckx_error(PROGRAM " failed: does avahi-daemon run on this host? `" PROGRAM " -t " TYPE
			  "` says more");
	return -EIO;
}

int ckx_lan_find(struct ckx_lan *lan)
{
	char *text = malloc(TEXT_MOST + 1);
	pid_t pid;
	int fd = text ? start_program(&pid) : -ENOMEM, ret = 0;

	lan->count = 0;
	if (fd == -ENOENT)
		ckx_error(PROGRAM " is not installed: it finds servers on the local network "
				  "(package avahi-utils)");
	else if (fd < 0)
		ckx_error(PROGRAM ": %s", strerror(-fd));
	if (fd >= 0) {
		ret = end_program(pid, read_text(fd, text));
		close(fd);
		ckx_lan_parse(text, lan);
	}
	free(text);
	return fd < 0 ? fd : ret;
}

/* --- output */

void ckx_lan_print(const struct ckx_lan *lan)
{
	if (lan->count == 0) {
		puts("no server announces itself on the local network");
		return;
	}
	printf("%-28s %-28s %-10s %s\n", "NAME", "ADDRESS", "INTERFACE", "KEY");
	for (size_t i = 0; i < lan->count; i++) {
		const struct ckx_lan_server *s = &lan->servers[i];

		printf("%-28s %-28s %-10s %s\n", s->name, s->address, s->interface,
		       s->pin[0] ? s->pin : "-");
	}
	puts("\nAny host can announce a server with any key. With a key that you have from the "
	     "server's\nadministrator: cricket login ADDRESS#KEY");
}

void ckx_lan_print_json(const struct ckx_lan *lan)
{
	json_t *list = json_array();

	for (size_t i = 0; i < lan->count; i++) {
		const struct ckx_lan_server *s = &lan->servers[i];

		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:s, s:s*}", "name", s->name, "address",
						s->address, "interface", s->interface,
						"announced_pin", s->pin[0] ? s->pin : NULL));
	}
	json_dumpf(list, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(list);
}
