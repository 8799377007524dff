/*
 * server/options/announce.h - the file with which Avahi announces this host's server by mDNS.
 *
 * Avahi reads the file when it changes, and answers also while the server does not run.
 */
#ifndef CK_SERVER_OPTIONS_ANNOUNCE_H
#define CK_SERVER_OPTIONS_ANNOUNCE_H

#define CK_ANNOUNCE_FILE "/etc/avahi/services/cricket.service"

/* Announce the server at @port, with the @pin of its key. -errno; -ENOENT: Avahi is not there. */
int cks_announce_begin(int port, const char *pin);

/* No longer. -errno. */
int cks_announce_end(void);

#endif
