/*
 * launcher/connect.h - gpu_launcher as a client of its own daemon.
 */
#ifndef CK_LAUNCHER_CONNECT_H
#define CK_LAUNCHER_CONNECT_H

#include "launcher/options.h"

/*
 * Let the daemon at options->daemon do what stdin asks for. Returns the exit code, as if it had
 * been done here; -ECONNREFUSED only with options->connect_try, when no daemon is there.
 */
int ck_connect_run(const struct ck_options *options);

#endif
