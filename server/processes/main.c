/*
 * server/processes/main.c - cricket-rpc-server: the supervisor, or a process that it starts.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "m3/broker.h"
#include "server/processes/options.h"
#include "server/processes/supervisor.h"
#include "server/processes/worker.h"
#include "util/log.h"

int main(int argc, char **argv)
{
	struct cks_options options;
	bool spare = argc > 1 && strcmp(argv[1], CK_SPARE_ARGUMENT) == 0;
	bool worker = spare || (argc > 1 && strcmp(argv[1], CK_WORKER_ARGUMENT) == 0);
	char **all = argv;
	int ret;

	ck_log_default("info");
	setenv("CRICKET_LOG_DROP", "1", 0); /* for workers and their drivers too */
	if (argc == 3 && strcmp(argv[1], "--probe") == 0)
		return cks_probe_main(argv[2]);
	if (argc == 3 && strcmp(argv[1], "--m3-broker") == 0)
		return cks_broker_main(argv[2]);
	if (argc == 3 && strcmp(argv[1], CK_M3_COPIER_OPTION) == 0)
		return ck_m3_copier_main(argv[2]);
	if (worker) {
		argv[1] = argv[0];
		argc--;
		argv++;
	}
	ret = cks_options_parse(argc, argv, &options);
	if (ret != 0)
		return ret > 0 ? EXIT_SUCCESS : 2;
	if (worker)
		return cks_worker_main(&options, spare ? all : NULL);
	return cks_supervisor_main(&options);
}
