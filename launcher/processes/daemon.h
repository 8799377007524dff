/*
 * launcher/processes/daemon.h - the persistent launcher: a unix socket, and a session for each
 * client; and gpu_launcher as such a client.
 */
#ifndef CK_LAUNCHER_PROCESSES_DAEMON_H
#define CK_LAUNCHER_PROCESSES_DAEMON_H

#include "launcher/options/options.h"

/*
 * Serve clients at options->daemon until SIGTERM or SIGINT, which lets each session finish what it
 * has begun; a second one ends all at once. Returns the exit code.
 */
int ckl_daemon_run(const struct ckl_options *options);

/*
 * Send the requests on stdin to the daemon at options->daemon. Returns the exit code, as if they
 * had run here; -ECONNREFUSED only with options->connect_try, when no daemon is there.
 */
int ckl_connect_run(const struct ckl_options *options);

#endif
