/*
 * launcher/processes/main.c - gpu_launcher: runs kernels for programs that know no CUDA.
 *
 * The process that reads and writes never touches the driver; worker.c forks the one that does.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/compile/cache.h"
#include "launcher/options/options.h"
#include "launcher/processes/daemon.h"
#include "launcher/processes/session.h"
#include "launcher/request/reply.h"
#include "launcher/text/failure.h"
#include "util/log.h"
#include "util/process/output.h"

static int report_failure(const struct ckl_options *options, struct ckl_fail *fail)
{
	struct ckl_out out = {0};
	int exit = fail->exit;

	ckl_reply_fail(&out, options->frames, 0, fail);
	if (out.base)
		fwrite(out.base, 1, out.size, stdout);
	free(out.base);
	ckl_fail_clear(fail);
	return exit;
}

static int run_mode(struct ckl_options *options)
{
	struct ckl_worker none = {.sock = -1, .pidfd = -1};
	struct ckl_fail fail = {0};
	int ret;

	if (ckl_named_files_take(options, &fail) < 0)
		return report_failure(options, &fail);
	if (options->connect) {
		ret = ckl_connect_run(options);
		if (ret >= 0)
			return ret;
	}
	switch (options->mode) {
	case CK_MODE_DAEMON:
		return ckl_daemon_run(options);
	case CK_MODE_CACHE:
		return ckl_store_command(options);
	case CK_MODE_COMPILE:
		return ckl_store_compile(options);
	default:
		return ckl_session_serve(options, STDIN_FILENO, STDOUT_FILENO, &none, -1);
	}
}

/* Flush stdio. Sessions write without stdio, and detect errors themselves. */
static int flush_stdout(int ret)
{
	if (ck_output_end("gpu_launcher"))
		return ret;
	return ret == CK_EXIT_OK ? CK_EXIT_SERVICE : ret;
}

int main(int argc, char **argv)
{
	struct ckl_options options;
	int ret;

	ck_output_begin();
	ret = ckl_options_parse(argc, argv, &options);
	if (ret == 0) {
		ck_log_default("warning");
		signal(SIGPIPE, SIG_IGN);
		/*
		 * A session leaves no zombies: it sees the end of workers by other means. Other
		 * modes wait for a compiler, even if our parent ignores SIGCHLD.
		 */
		signal(SIGCHLD, options.mode <= CK_MODE_DAEMON ? SIG_IGN : SIG_DFL);
		ret = run_mode(&options);
	} else {
		ret = ret > 0 ? CK_EXIT_OK : CK_EXIT_USAGE;
	}
	json_decref(options.defaults);
	return flush_stdout(ret);
}
