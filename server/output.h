/*
 * server/output.h - what kernels print: the driver writes it to stdout, the client fetches it.
 */
#ifndef CK_SERVER_OUTPUT_H
#define CK_SERVER_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

struct ck_output;

/* Make this process's stdout a file in memory, unbuffered: the descriptor, or -errno. */
int ck_output_redirect(void);

/* @fd: the file behind stdout, -1 for none; the output's from then on. -ENOMEM. */
int ck_output_create(int fd, struct ck_output **output);
void ck_output_destroy(struct ck_output *output);

/* Whether there are bytes to fetch. */
bool ck_output_pending(struct ck_output *output);

/* Take up to @size bytes that have not been taken yet; their number. */
size_t ck_output_take(struct ck_output *output, void *buf, size_t size);

#endif
