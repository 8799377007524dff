/*
 * launcher/request/reply.h - replies as JSON text and as frames.
 */
#ifndef CK_LAUNCHER_REQUEST_REPLY_H
#define CK_LAUNCHER_REQUEST_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/text/failure.h"
#include "launcher/text/output_buffer.h"
#include "launcher/text/type.h"

/* A small JSON document as a whole reply: a line of text, or a frame. */
void ckl_reply_document(struct ckl_out *out, bool frame, const char *text, size_t size);

/* An error object: {"error": {...}}; with the number of an asynchronous launch unless that is 0. */
void ckl_reply_fail(struct ckl_out *out, bool frame, uint64_t id, const struct ckl_fail *fail);

/* A JSON list of elements. */
void ckl_reply_list(struct ckl_out *out, enum ckl_type type, const void *data, size_t count);

/* A JSON string of base64. */
void ckl_reply_base64(struct ckl_out *out, const void *data, size_t size);

#endif
