/*
 * launcher/text/output_buffer.h - a buffer that a reply is written into, complete before any of it
 * is sent.
 */
#ifndef CK_LAUNCHER_TEXT_OUTPUT_BUFFER_H
#define CK_LAUNCHER_TEXT_OUTPUT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Zeroed, it is empty and its memory is malloc'ed. @grow, if set, gets at least @capacity bytes at
 * base in another way: 0 or -errno.
 */
struct ckl_out {
	char *base;
	size_t size, capacity;
	int (*grow)(struct ckl_out *out, size_t capacity);
	bool failed; /* out of memory: all that was written since is missing */
};

/* Room for @size bytes more, which are not counted yet; NULL without memory. */
char *ckl_out_room(struct ckl_out *out, size_t size);

/* Append bytes, a C string, a formatted text of at most 1 KB, or a JSON string with its quotes; in
 * that, bytes that are not UTF-8 become U+FFFD. */
void ckl_out_bytes(struct ckl_out *out, const void *data, size_t size);
void ckl_out_text(struct ckl_out *out, const char *text);
void ckl_out_format(struct ckl_out *out, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void ckl_out_string(struct ckl_out *out, const char *text);

#endif
