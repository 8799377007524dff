/*
 * server/checkpoint/failure_text.h - why a checkpoint or a restore failed, in words for the
 * administrator.
 */
#ifndef CK_SERVER_CHECKPOINT_FAILURE_TEXT_H
#define CK_SERVER_CHECKPOINT_FAILURE_TEXT_H

/* Filled in by the function that detects the error; its callers pass it on. */
struct cks_why {
	char text[512];
};

/* Store the message; returns -@error. %m is that of @error. */
int cks_why_set(struct cks_why *why, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
