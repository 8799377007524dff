/*
 * util/process/output.h - the standard output of a program that ends.
 */
#ifndef CK_UTIL_PROCESS_OUTPUT_H
#define CK_UTIL_PROCESS_OUTPUT_H

#include <stdbool.h>

/*
 * A caller may have closed any of the three standard descriptors; a socket would then take its
 * number, and get the output. The descriptor that is opened there can neither be read as input
 * nor written to as output.
 */
void ck_output_begin(void);

/* Write the rest of standard output. False: not all that was printed has arrived, as on a full
 * disk; it is said on stderr, in the name of @program. */
bool ck_output_end(const char *program);

#endif
