/*
 * launcher/connect.h - gpu_launcher as a client of its own daemon.
 */
#ifndef CK_LAUNCHER_CONNECT_H
#define CK_LAUNCHER_CONNECT_H

#include "launcher/options.h"

/*
 * Send the requests on stdin to the daemon at options->daemon. Returns the exit code, as if they
 * had run here; -ECONNREFUSED only with options->connect_try, when no daemon is there.
 */
int ckl_connect_run(const struct ckl_options *options);

#endif
