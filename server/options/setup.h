/*
 * server/options/setup.h - `--setup`: what a server for other hosts needs, in one step.
 */
#ifndef CK_SERVER_OPTIONS_SETUP_H
#define CK_SERVER_OPTIONS_SETUP_H

#include <stddef.h>

/*
 * Make key, certificate and tokens where they are missing (util/server_files.h), for the packaged
 * service also options in /etc/cricket/server.conf and a policy, and print how to start @program
 * with them and how a client logs in. @words: the name by which clients reach this host (none: its
 * own name), and the holders of tokens (none: this user). -errno, printed on stderr.
 */
int cks_setup(const char *program, char *const *words, size_t count);

#endif
