/*
 * util/spelling.h - which name a user may have meant.
 */
#ifndef CK_UTIL_SPELLING_H
#define CK_UTIL_SPELLING_H

#include <stddef.h>

#define CK_SPELLING_NEAR 2 /* letters that differ in a slip of the keyboard */

/* Letters to insert, remove or replace between two names (Levenshtein), or more than
 * CK_SPELLING_NEAR. */
size_t ck_spelling_distance(const char *a, const char *b);

#endif
