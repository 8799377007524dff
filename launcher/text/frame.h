/*
 * launcher/text/frame.h - the binary form of a message; docs/launcher-protocol.md describes it.
 *
 * A frame is a head of 16 bytes, then as many bytes as it says: the length of a JSON document,
 * the document, zeroes up to a multiple of 64 from the start of the frame, and the data section,
 * which the document's "at" count from. All numbers little-endian.
 */
#ifndef CK_LAUNCHER_TEXT_FRAME_H
#define CK_LAUNCHER_TEXT_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define CK_FRAME_MAGIC 0xCDA0CAFEu
#define CK_FRAME_VERSION 1
#define CK_FRAME_HEAD 16 /* u32 magic, u32 version, u64 bytes that follow */
#define CK_FRAME_ALIGN 64
/* No text begins with this byte: it tells a frame from a JSON document. */
#define CK_FRAME_FIRST 0xFE

/* A frame's parts, in its own bytes. */
struct ckl_frame {
	const char *text; /* the document */
	size_t text_size;
	const char *data; /* the data section */
	size_t data_size;
};

/* Bytes of the whole frame by its head. -EINVAL: not a frame; -EPROTO: another version. */
int ckl_frame_size(const void *head, uint64_t *size);

/* Take a complete frame of @size bytes apart. -EINVAL: its lengths do not fit. */
int ckl_frame_open(const void *frame, size_t size, struct ckl_frame *out);

/*
 * Where the data section begins in a frame with a document of @text_size bytes; and write all
 * before it but the document: head and length at @frame, zeroes behind the document, for
 * @data_size bytes of data.
 */
size_t ckl_frame_data_offset(size_t text_size);
void ckl_frame_close(void *frame, size_t text_size, size_t data_size);

/* Where the document stands. */
#define CK_FRAME_TEXT (CK_FRAME_HEAD + 4)

#endif
