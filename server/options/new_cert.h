/*
 * server/options/new_cert.h - `--new-cert`: a key and a certificate for a server without an
 * authority.
 */
#ifndef CK_SERVER_OPTIONS_NEW_CERT_H
#define CK_SERVER_OPTIONS_NEW_CERT_H

#include <stddef.h>

/* Make them in @folder for these @names (none: this host's), and print how to use them; a key that
 * is there is kept. -errno, printed on stderr. */
int cks_new_cert(const char *folder, char *const *names, size_t count);

#endif
