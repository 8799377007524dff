/*
 * wcm/link.h - a rank's connection to its meeting place.
 */
#ifndef CK_WCM_LINK_H
#define CK_WCM_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "wcm/wcm_handle.h"

struct ck_wcm_link;

/* A link's events, called in its own thread without locks of the link. */
struct ck_wcm_link_ops {
	/* All ranks are done with object @number, or (bits in @lost) have gone. */
	void (*released)(void *data, uint64_t number, uint32_t lost);
	/* Ranks have gone; all of them: the meeting place itself. */
	void (*lost)(void *data, uint32_t ranks);
};

/* An exchange: each rank of @mask gives @size bytes, and perhaps a descriptor, and gets all. */
struct ck_wcm_exchange {
	uint32_t mask;
	const void *give;
	size_t size;		/* CK_WCM_PART_MAX at most */
	int give_fd;		/* -1: none */
	void *all;		/* of @size times the ranks of @mask, in order */
	int fds[WCM_RANKS_MAX]; /* of each rank, or -1; the caller's to close */
	uint64_t number;	/* that no other exchange of the group has */
};

/* Come into group @name as @rank of @size, within @timeout_ms. wcm_status. */
int ck_wcm_link_open(const char *name, int rank, int size, unsigned int timeout_ms,
		     const struct ck_wcm_link_ops *ops, void *data, struct ck_wcm_link **link);

/* Leave it; NULL is nothing. The thread has ended when this returns. */
void ck_wcm_link_close(struct ck_wcm_link *link);

/* wcm_status, the same for all ranks of the mask except lost ones. */
int ck_wcm_link_exchange(struct ck_wcm_link *link, struct ck_wcm_exchange *x);

/*
 * This rank no longer uses object @number of the ranks in @mask. False: there is no meeting place
 * any more.
 */
bool ck_wcm_link_done(struct ck_wcm_link *link, uint64_t number, uint32_t mask);

#endif
