/*
 * launcher/daemon.h - the persistent launcher: a unix socket, and a session for each client.
 */
#ifndef CK_LAUNCHER_DAEMON_H
#define CK_LAUNCHER_DAEMON_H

#include "launcher/options.h"

/*
 * Serve clients at options->daemon until SIGTERM or SIGINT, which lets each session finish what it
 * has begun; a second one ends all at once. Returns the exit code.
 */
int ckl_daemon_run(const struct ckl_options *options);

#endif
