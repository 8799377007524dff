/*
 * launcher/text/base64.h - base64 with padding, RFC 4648 section 4.
 */
#ifndef CK_LAUNCHER_TEXT_BASE64_H
#define CK_LAUNCHER_TEXT_BASE64_H

#include <stddef.h>

/* Read @length characters, a multiple of 4, into exactly @size bytes. -EINVAL: it is none. */
int ckl_base64_read(const char *text, size_t length, void *out, size_t size);

/* Characters that @size bytes need, and writing them, without a NUL. */
size_t ckl_base64_length(size_t size);
void ckl_base64_print(const void *data, size_t size, char *out);

#endif
