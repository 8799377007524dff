/*
 * server/door/downloads.h - clients that fetch the client's files (CK_FILES): admitted here, served
 * by processes of their own, a few at a time.
 */
#ifndef CK_SERVER_DOOR_DOWNLOADS_H
#define CK_SERVER_DOOR_DOWNLOADS_H

#include <stdbool.h>
#include <sys/types.h>

#include "server/door/admit.h"

#define CK_DOWNLOADS 8
#define CK_DOWNLOADS_OF_ONE 2 /* peer: slow ones cannot take the places of all others */

struct cks_downloads {
	struct {
		pid_t pid; /* 0: free */
		struct cks_peer peer;
	} list[CK_DOWNLOADS];
};

/* Serve or refuse the call in @bytes that @peer has sent on @fd; the caller closes @fd. */
void cks_downloads_serve(struct cks_downloads *downloads, struct cks_admission *admission, int fd,
			 const struct cks_peer *peer, const unsigned char *bytes,
			 const struct cks_peeked *call);

/* A child has ended; false: it is none of these. */
bool cks_downloads_ended(struct cks_downloads *downloads, pid_t pid);

#endif
