/*
 * wcm/rendezvous.h - the meeting place of a group: a thread in rank 0's process that knows the
 * group's members and the exchanges that they wait for.
 */
#ifndef CK_WCM_RENDEZVOUS_H
#define CK_WCM_RENDEZVOUS_H

struct ck_wcm_rendezvous;

/*
 * Open the place of the group @name of @size ranks. -EADDRINUSE: the name is taken. The place ends
 * when all ranks that came have gone. If the process exits before that, its own ranks count as
 * gone, and the exit waits for ranks of other processes, @patience_ms at most. 0 or -errno.
 */
int ck_wcm_rendezvous_open(const char *name, int size, unsigned int patience_ms,
			   struct ck_wcm_rendezvous **meet);

/*
 * Close it when rank 0 could not join the group: the other ranks are notified, and the name is free
 * again.
 */
void ck_wcm_rendezvous_stop(struct ck_wcm_rendezvous *meet);

/* From now on it ends by itself. */
void ck_wcm_rendezvous_leave(struct ck_wcm_rendezvous *meet);

#endif
