/*
 * util/process/output.h - the standard output of a program that ends.
 */
#ifndef CK_UTIL_PROCESS_OUTPUT_H
#define CK_UTIL_PROCESS_OUTPUT_H

#include <stdbool.h>

/* Write the rest of standard output. False: not all that was printed has arrived, as on a full
 * disk; it is said on stderr, in the name of @program. */
bool ck_output_end(const char *program);

#endif
