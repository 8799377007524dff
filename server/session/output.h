/*
 * server/session/output.h - output of kernels: printf to stdout, failed assertions to stderr. The
 * client fetches both and writes them to its own.
 */
#ifndef CK_SERVER_SESSION_OUTPUT_H
#define CK_SERVER_SESSION_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

struct ck_output;

/*
 * Replace this process's stdout and stderr by memory files. Log lines go to the original stderr; so
 * does unfetched output on stderr if the process aborts. With a sanitizer, which reports on stderr,
 * stderr stays. -errno.
 *
 * When cks_output_check finds more than @most unfetched bytes in a file, further output is dropped
 * until they have been fetched; the program gets a line about the gap.
 */
int cks_output_redirect(size_t most, struct ck_output **output);
/* @most is another now. */
void cks_output_bound(struct ck_output *output, size_t most);
void cks_output_destroy(struct ck_output *output);

/* Are there bytes to fetch? @output may be NULL here and below: then there are none. */
bool cks_output_check(struct ck_output *output);

/* The same without system calls, unless there are any. If they begin with a zero byte, it is true
 * only after the next check. */
bool cks_output_pending(struct ck_output *output);

/* Take up to @size unfetched bytes of stdout, or of stderr (@errors); returns their number. */
size_t cks_output_take(struct ck_output *output, bool errors, void *buf, size_t size);

#endif
