/*
 * launcher/main.c - gpu_launcher: runs kernels for programs that know no CUDA.
 *
 * The process that reads and writes never touches the driver; worker.c forks the one that does.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "launcher/connect.h"
#include "launcher/daemon.h"
#include "launcher/fail.h"
#include "launcher/options.h"
#include "launcher/session.h"
#include "launcher/store.h"
#include "util/log.h"

static int run(const struct ck_options *options)
{
	struct ck_worker none = {.sock = -1, .pidfd = -1};
	int ret;

	if (options->connect) {
		ret = ck_connect_run(options);
		if (ret >= 0)
			return ret;
	}
	switch (options->mode) {
	case CK_MODE_DAEMON:
		return ck_daemon_run(options);
	case CK_MODE_CACHE:
		return ck_store_command(options);
	case CK_MODE_COMPILE:
		return ck_store_compile(options);
	default:
		return ck_session_serve(options, STDIN_FILENO, STDOUT_FILENO, &none, -1);
	}
}

int main(int argc, char **argv)
{
	struct ck_options options;
	int ret = ck_options_parse(argc, argv, &options);

	if (ret == 0) {
		ck_log_default("warning");
		signal(SIGPIPE, SIG_IGN);
		if (options.mode <= CK_MODE_DAEMON)
			signal(SIGCHLD,
			       SIG_IGN); /* no zombies; how workers end is seen otherwise */
		ret = run(&options);
	} else {
		ret = ret > 0 ? CK_EXIT_OK : CK_EXIT_USAGE;
	}
	json_decref(options.defaults);
	return ret;
}
