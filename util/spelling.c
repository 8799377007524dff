/*
 * util/spelling.c - see spelling.h.
 */
#include <string.h>

#include "util/spelling.h"
#include "util/util.h"

#define NAME_MAX_LETTERS 48

size_t ck_spelling_distance(const char *a, const char *b)
{
	size_t row[NAME_MAX_LETTERS + 1], n = strlen(a), m = strlen(b);

	if (n > NAME_MAX_LETTERS || m > NAME_MAX_LETTERS)
		return CK_SPELLING_NEAR + 1;
	for (size_t j = 0; j <= m; j++)
		row[j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= m; j++) {
			size_t replaced = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			row[j] = ck_min(replaced, ck_min(row[j], row[j - 1]) + 1);
		}
	}
	return row[m];
}
