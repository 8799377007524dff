/*
 * server/supervisor/main.c - cricket-rpc-server: the supervisor, or a process that it starts.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "m3/broker.h"
#include "server/control/ctl.h"
#include "server/door/broker.h"
#include "server/front/front.h"
#include "server/helpers/checkpoint.h"
#include "server/helpers/client_files.h"
#include "server/helpers/gpu_probe.h"
#include "server/helpers/gpu_time_meter.h"
#include "server/helpers/helper.h"
#include "server/life/upgrade.h"
#include "server/options/options.h"
#include "server/policy/policy.h"
#include "server/policy/token.h"
#include "server/processes/child.h"
#include "server/processes/messages.h"
#include "server/supervisor/control_commands.h"
#include "server/supervisor/host.h"
#include "server/supervisor/supervisor.h"
#include "server/worker/fork_server.h"
#include "server/worker/worker.h"
#include "util/log.h"
#include "util/process/output.h"

/* Take @name and the descriptor behind it off the arguments: the descriptor, or -1. */
static int take_descriptor(int *argc, char ***argv, const char *name)
{
	char *end;
	long fd;

	if (*argc < 3 || strcmp((*argv)[1], name) != 0)
		return -1;
	fd = strtol((*argv)[2], &end, 10);
	if (*end || end == (*argv)[2] || fd < 3 || fd > INT_MAX)
		return -1; /* the options' parser refuses @name */
	(*argv)[2] = (*argv)[0];
	*argc -= 2;
	*argv += 2;
	return (int)fd;
}

/* A process that helps the server and takes its arguments by their places: run it, *@status is
 * its exit status; false: it is none of these. */
static bool run_helper(int argc, char **argv, int *status)
{
	const char *kind = argc > 1 ? argv[1] : "";

	if (argc == 3 && strcmp(kind, "--probe") == 0)
		*status = cks_driver_probe_main(argv[2]);
	else if ((argc == 8 || argc == 13) && strcmp(kind, CK_CHECKPOINT_ARGUMENT) == 0)
		*status = cks_checkpoint_main(argv + 2);
	else if (argc == 6 && strcmp(kind, "--m3-broker") == 0)
		*status = cks_broker_main(argv[2], argv[3], (unsigned int)atol(argv[4]), argv[5]);
	else if ((argc == 4 || argc == 5) && strcmp(kind, CK_FRONT_ARGUMENT) == 0)
		*status = cks_front_main(argv + 2);
	else if (argc == 3 && strcmp(kind, CK_GPU_TIME_ARGUMENT) == 0)
		*status = cks_gpu_time_main(argv[2]);
	else if (argc == 3 && strcmp(kind, CK_GPU_PROBE_ARGUMENT) == 0)
		*status = cks_gpu_probe_main(argv[2]);
	else if (argc == 3 && strcmp(kind, CK_M3_COPIER_OPTION) == 0)
		*status = ck_m3_copier_main(argv[2]);
	else if (argc == 2 && strcmp(kind, CK_CHECKPOINTER_ARGUMENT) == 0)
		*status = cks_checkpointer_main();
	else if (argc == 2 && strcmp(kind, CK_RESTORER_ARGUMENT) == 0)
		*status = cks_restorer_main();
	else if ((argc == 2 || argc == 3) && strcmp(kind, CK_CLIENT_FILES_ARGUMENT) == 0)
		*status = cks_client_files_main(argv[2]);
	else
		return false;
	return true;
}

/* Can a server start with the files that @options name? Logs the error if not. */
static bool files_are_valid(const struct cks_options *options)
{
	const char *wrong = cks_users_check(&options->worker_users);
	char why[CK_TOKEN_WHY];
	int ret = cks_token_check(options->token_file, why);

	if (ret < 0)
		fprintf(stderr, "cricket-rpc-server: --token-file: %s\n", why);
	if (ret < 0 || cks_policy_check("--policy: ", options->policy, NULL) < 0)
		return false;
	if (wrong)
		fprintf(stderr, "cricket-rpc-server: --worker-users: %s\n", wrong);
	return !wrong && cks_options_check_paths(options, NULL) == 0;
}

/* The exit status of --show-config. */
static int show_config(const struct cks_options *options)
{
	int ret = cks_options_show(options, stdout), start = cks_start_check(options, stdout);

	return ret < 0 || start < 0 ? 2 : EXIT_SUCCESS;
}

/* The exit status of a command that has printed its answer. */
static int end_output(int status)
{
	return ck_output_end("cricket-rpc-server") || status != EXIT_SUCCESS ? status
									     : EXIT_FAILURE;
}

/* Take the kind of a worker's process off the arguments, and have ps show @title instead of
 * them. Returns all, for cks_worker_main. */
static char **take_kind(int *argc, char ***argv, const char *title)
{
	char **all = cks_title_take(*argc, *argv);

	cks_title_set("cricket-%s", title);
	all[1] = all[0];
	*argc -= 1;
	*argv = all + 1;
	return all;
}

int main(int argc, char **argv)
{
	struct cks_options options;
	bool spare = argc > 1 && strcmp(argv[1], CK_SPARE_ARGUMENT) == 0;
	bool fork_server = argc > 1 && strcmp(argv[1], CK_FORK_SERVER_ARGUMENT) == 0;
	bool worker =
		spare || fork_server || (argc > 1 && strcmp(argv[1], CK_WORKER_ARGUMENT) == 0);
	char **all = argv;
	int ret, state, check;

	ck_output_begin();
	ck_log_default("info");
	ck_log_plain();
	setenv("CRICKET_LOG_DROP", "1", 0); /* for workers and their drivers too */
	if (run_helper(argc, argv, &ret))
		return ret;
	if (worker)
		all = take_kind(&argc, &argv,
				spare	      ? "worker: spare"
				: fork_server ? "nursery"
					      : "worker: starting");
	state = take_descriptor(&argc, &argv, CK_CONTINUE_ARGUMENT);
	check = take_descriptor(&argc, &argv, CK_CHECK_ARGUMENT);
	ret = cks_options_parse(argc, argv, &options);
	if (ret != 0)
		return end_output(ret > 0 ? EXIT_SUCCESS : 2);
	if (fork_server)
		cks_fork_server_serve(&options); /* returns in a worker */
	if (worker)
		return cks_worker_main(&options, spare ? all : NULL);
	if (check >= 0 && cks_policy_check("--policy: ", options.policy, NULL) < 0)
		return 2;
	if (check >= 0)
		return cks_upgrade_check_main(&options, check);
	if (options.words)
		return end_output(cks_ctl_main(cks_commands, &options));
	if (options.check_policy)
		return cks_policy_check("", options.check_policy, options.token_file) < 0
			       ? 2
			       : EXIT_SUCCESS;
	if (options.show_config)
		return end_output(show_config(&options));
	if (state < 0 && !files_are_valid(&options))
		return 2;
	/* an upgrade has the options of this start */
	argv = cks_options_arguments(&options, argv[0]);
	return argv ? cks_supervisor_main(&options, argv, state) : EXIT_FAILURE;
}
