/*
 * command/sessions/status.c - `cricket status`: the sessions of a server on this host, once or
 * again and again.
 */
#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/sessions/control.h"
#include "command/sessions/gpu.h"
#include "command/sessions/session.h"
#include "util/text.h"

#define ROWS 1024 /* sessions shown at most */
#define LINE 512

static const struct option options[] = {{"json", no_argument, NULL, 'j'},
					{"watch", no_argument, NULL, 'w'},
					{"server", required_argument, NULL, 's'},
					{NULL, 0, NULL, 0}};

/* Sessions whose programs have no connection. */
static void print_kept(const json_t *report)
{
	const json_t *list = json_object_get(report, "sessions"), *s;
	bool any = false;
	size_t i;

	json_array_foreach(list, i, s)
	{
		char since[16], left[16], line[LINE];

		if (!json_object_get(s, "kept"))
			continue;
		if (!any)
			printf("\n%-7s %-20s %8s %8s\n", "KEPT", "PROGRAM", "CUT FOR", "ENDS IN");
		any = true;
		snprintf(line, sizeof(line), "%-7s %-20.20s %8s %8s",
			 json_string_value(json_object_get(s, "session")),
			 json_string_value(json_object_get(s, "program")),
			 ckx_time(json_number_value(json_object_get(s, "kept")), since),
			 ckx_time(json_number_value(json_object_get(s, "kept_left")), left));
		ck_text_plain(line, sizeof(line));
		puts(line);
	}
}

/* Clients that wait for a session. */
static void print_waiting(const json_t *report)
{
	const json_t *list = json_object_get(report, "waiting"), *w;
	size_t i;

	if (json_array_size(list) > 0)
		printf("\n%5s %-20.20s %6s %-20.20s %s\n", "PLACE", "PROGRAM", "WAITS", "IDENTITY",
		       "HOST");
	json_array_foreach(list, i, w)
	{
		char age[16], line[LINE];

		snprintf(line, sizeof(line), "%5d %-20.20s %6s %-20.20s %s",
			 (int)json_integer_value(json_object_get(w, "place")),
			 json_string_value(json_object_get(w, "program")),
			 ckx_time(json_number_value(json_object_get(w, "age")), age),
			 json_string_value(json_object_get(w, "identity")),
			 json_string_value(json_object_get(w, "host")));
		ck_text_plain(line, sizeof(line));
		puts(line);
	}
}

static void print_report(const json_t *report, const json_t *last)
{
	static struct ckx_session_row rows[ROWS];
	size_t count = ckx_rows(report, last, rows, ROWS), i;
	int width = ckx_width(STDOUT_FILENO);
	const json_t *gpu;
	char line[LINE];

	ckx_head(report, width, line, sizeof(line));
	puts(line);
	json_array_foreach(json_object_get(report, "gpus"), i, gpu)
	{
		ckx_gpu_text(gpu, width, line, sizeof(line));
		puts(line);
	}
	ckx_session_row_head(width, line, sizeof(line));
	puts(line);
	for (i = 0; i < count; i++) {
		ckx_session_row_text(&rows[i], width, line, sizeof(line));
		puts(line);
	}
	print_kept(report);
	print_waiting(report);
}

/* Print a report each second until the server ends, or the user interrupts. */
static int watch_status(int fd)
{
	json_t *last = NULL, *report;
	struct ckx_gpus *gpus = NULL;
	bool terminal = ckx_colours(1);

	while ((report = ckx_control_ask(fd, json_pack("{s:s}", "command", "status"))) != NULL) {
		if (terminal)
			fputs("\033[H\033[2J", stdout);
		if (!last)
			gpus = ckx_gpus_open(report);
		ckx_gpus_add(gpus, report);
		print_report(report, last);
		json_decref(last);
		last = report;
		if (fflush(stdout) != 0)
			break;
		sleep(1);
	}
	json_decref(last);
	ckx_gpus_close(gpus);
	return CKX_FAILED;
}

static int print_status(int fd, bool json)
{
	json_t *report = ckx_control_ask(fd, json_pack("{s:s}", "command", "status"));
	struct ckx_gpus *gpus;

	if (!report)
		return CKX_FAILED;
	gpus = ckx_gpus_open(report);
	ckx_gpus_add(gpus, report);
	ckx_gpus_close(gpus);
	if (json) {
		json_object_del(report, "ok");
		json_dumpf(report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
		putchar('\n');
	} else {
		print_report(report, NULL);
	}
	json_decref(report);
	return CKX_OK;
}

int ckx_status(const struct ckx_command *self, int argc, char **argv)
{
	bool json = false, again = false;
	const char *server = NULL;
	int option, fd, status;

	while ((option = getopt_long(argc, argv, "jws:", options, NULL)) != -1) {
		if (option == '?')
			return ckx_usage(self);
		json |= option == 'j';
		again |= option == 'w';
		server = option == 's' ? optarg : server;
	}
	if (argc - optind > (server ? 0 : 1) || (json && again))
		return ckx_usage(self);
	fd = ckx_control_open(server ? server : argv[optind]);
	if (fd < 0)
		return CKX_FAILED;
	status = again ? watch_status(fd) : print_status(fd, json);
	close(fd);
	return status;
}
