/*
 * server/options/setup.h - `--setup` prepares a server for other hosts, with the parts
 * `--new-token` and `--new-cert`.
 */
#ifndef CK_SERVER_OPTIONS_SETUP_H
#define CK_SERVER_OPTIONS_SETUP_H

#include <stddef.h>

/*
 * Make key, certificate and tokens where they are missing (util/address/server_files.h), for the
 * packaged service also options in /etc/cricket/server.conf and a policy, and print how to start
 * @program with them and how a client logs in. @words: the name by which clients reach this host
 * (none: its own name), and the holders of tokens (none: this user). @announce: yes or no, see
 * announce.h; NULL: leave it. -errno, printed on stderr.
 */
int cks_setup(const char *program, const char *announce, char *const *words, size_t count);

/* Print a random token for @name, and its line of a token file (util/address/token_file.h).
 * -EINVAL: not a name; -EIO: no random bytes; printed on stderr. */
int cks_new_token(const char *name);

/* Make a key and a certificate in @folder for these @names (none: this host's), and print how to
 * use them; a key that is there is kept. -errno, printed on stderr. */
int cks_new_cert(const char *folder, char *const *names, size_t count);

#endif
