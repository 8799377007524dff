/*
 * loader/halves/half.h - functions for the main of a lower half.
 */
#ifndef CK_LOADER_HALVES_HALF_H
#define CK_LOADER_HALVES_HALF_H

#include <stdint.h>

/* Which descriptors the half's libraries have open, a bit each; descriptors.c keeps it. */
#define CK_HALF_DESCRIPTORS 65536
extern uint64_t ck_half_descriptors[CK_HALF_DESCRIPTORS / 64];

/*
 * Offers the functions named by @names (NULL-terminated, in the order that the stub knows; @hash of
 * the list) and sleeps until the half is to end. @find gives a function's address or NULL; a name
 * that the library does not have stays without. Returns main's status.
 */
int ck_half_offer(const char *const *names, unsigned long hash, void *(*find)(const char *name));

/* To be said before: the half has memory that is elsewhere until it is touched; see struct
 * lh_half. */
void ck_half_keeps(long (*bring)(void *range), long (*action)(void *action));

/* To be set before, too: the action when the application calls _exit; see struct lh_half. */
void ck_half_leaves(long (*leave)(void *status));

/* A line on stderr, with the half's name in front. */
void ck_half_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
