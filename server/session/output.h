/*
 * server/session/output.h - what the driver writes for the program: what kernels print goes to stdout, the
 * line of a failed assertion to stderr. The client fetches both and writes them to its own.
 */
#ifndef CK_SERVER_SESSION_OUTPUT_H
#define CK_SERVER_SESSION_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

struct ck_output;

/*
 * Make this process's stdout and stderr files in memory; log lines go where stderr was, and so does what
 * was written to stderr and not fetched if the process aborts. Under a sanitizer, which
 * reports there, stderr stays. -errno.
 *
 * When ck_output_pending finds more than @most bytes of one of them that wait to be fetched, what
 * follows is dropped until they have been; a line in its place tells the program.
 */
int ck_output_redirect(size_t most, struct ck_output **output);
void ck_output_destroy(struct ck_output *output);

/* Whether there are bytes to fetch. @output may be NULL here and below: then there never are. */
bool ck_output_pending(struct ck_output *output);

/* Take up to @size bytes of stdout, of stderr (@errors), that have not been taken yet; their number. */
size_t ck_output_take(struct ck_output *output, bool errors, void *buf, size_t size);

#endif
