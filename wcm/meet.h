/*
 * wcm/meet.h - the meeting place of a group: a thread in rank 0's process that knows who is there,
 * and what the ranks wait for.
 */
#ifndef CK_WCM_MEET_H
#define CK_WCM_MEET_H

struct ck_wcm_meet;

/*
 * Open the place of the group @name of @size ranks. -EADDRINUSE: it is taken. It ends when all
 * ranks have gone that came. When the process exits before, its own ranks are taken for gone, and
 * the exit waits for those of other processes, @patience_ms at most. 0 or -errno.
 */
int ck_wcm_meet_open(const char *name, int size, unsigned int patience_ms,
		     struct ck_wcm_meet **meet);

/* Give it up, when rank 0 has not come into the group: the others are told, and its name is free again. */
void ck_wcm_meet_stop(struct ck_wcm_meet *meet);

/* From now on it ends by itself. */
void ck_wcm_meet_leave(struct ck_wcm_meet *meet);

#endif
