/*
 * launcher/text/frame.c - heads and lengths of frames; see frame.h. This machine is little-endian.
 */
#include <errno.h>
#include <string.h>

#include "launcher/text/frame.h"
#include "util/util.h"

int ckl_frame_size(const void *head, uint64_t *size)
{
	uint32_t words[2];

	memcpy(words, head, sizeof(words));
	if (words[0] != CK_FRAME_MAGIC)
		return -EINVAL;
	if (words[1] != CK_FRAME_VERSION)
		return -EPROTO;
	memcpy(size, (const char *)head + sizeof(words), sizeof(*size));
	return ck_add_overflow(*size, (uint64_t)CK_FRAME_HEAD, size) ? -EINVAL : 0;
}

int ckl_frame_open(const void *frame, size_t size, struct ckl_frame *out)
{
	uint64_t said, offset;
	uint32_t text_size;
	int ret;

	if (size < CK_FRAME_TEXT)
		return -EINVAL;
	ret = ckl_frame_size(frame, &said);
	if (ret < 0)
		return ret;
	memcpy(&text_size, (const char *)frame + CK_FRAME_HEAD, sizeof(text_size));
	offset = ckl_frame_data_offset(text_size);
	if (said != size || text_size > size - CK_FRAME_TEXT)
		return -EINVAL;
	out->text = (const char *)frame + CK_FRAME_TEXT;
	out->text_size = text_size;
	/* Without data the zeroes may be missing too. */
	out->data_size = size > offset ? size - offset : 0;
	out->data = (const char *)frame + (out->data_size ? offset : size);
	return 0;
}

size_t ckl_frame_data_offset(size_t text_size)
{
	return CK_ALIGN_UP(CK_FRAME_TEXT + text_size, (size_t)CK_FRAME_ALIGN);
}

void ckl_frame_close(void *frame, size_t text_size, size_t data_size)
{
	size_t offset = ckl_frame_data_offset(text_size);
	uint32_t words[2] = {CK_FRAME_MAGIC, CK_FRAME_VERSION}, length = (uint32_t)text_size;
	uint64_t following = offset + data_size - CK_FRAME_HEAD;
	char *at = frame;

	memcpy(at, words, sizeof(words));
	memcpy(at + sizeof(words), &following, sizeof(following));
	memcpy(at + CK_FRAME_HEAD, &length, sizeof(length));
	memset(at + CK_FRAME_TEXT + text_size, 0, offset - CK_FRAME_TEXT - text_size);
}
