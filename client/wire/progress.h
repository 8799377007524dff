/*
 * client/wire/progress.h - a program that sends much at a time says so on a terminal: the first
 * upload of a large model takes minutes over a slow network, and looks like a hang.
 */
#ifndef CK_CLIENT_WIRE_PROGRESS_H
#define CK_CLIENT_WIRE_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CK_PROGRESS_LEAST ((size_t)64 << 10) /* smaller payloads do not count */
#define CK_PROGRESS_TEXT 128

/* Sends that follow each other closely. Threads may change it at the same time: a line may then
 * come twice. */
struct ckc_progress {
	_Atomic uint64_t begun, last, said; /* ns */
	_Atomic uint64_t bytes, kept;	    /* sent; not sent, because the server has kept them */
};

/* @bytes were sent from @began to @now, in ns. True: it is time for the line in @text. */
bool ckc_progress_note(struct ckc_progress *progress, size_t bytes, uint64_t began, uint64_t now,
		       char text[CK_PROGRESS_TEXT]);

/* The same for this process, now; prints the line if stderr is a terminal. */
void ckc_progress_sent(size_t bytes, uint64_t began);
/* @bytes need not be sent: the server has kept them. The next line says so. */
void ckc_progress_stored(size_t bytes, uint64_t began);

#endif
