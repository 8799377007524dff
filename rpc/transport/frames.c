/*
 * rpc/transport/frames.c - see frames.h.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/transport/frames.h"
#include "util/util.h"

#define FRAMES_START (16u << 10)
#define FRAMES_LARGE (4 * FRAMES_START) /* a larger buffer is not kept without need */

void ck_frames_fini(struct ck_frames *f)
{
	free(f->buf);
	f->buf = NULL;
	f->head = f->tail = f->size = 0;
}

void ck_frames_restart(struct ck_frames *f)
{
	f->left = 0;
	f->part_size = 0;
	f->asks = false;
}

size_t ck_frames_take(struct ck_frames *f, void *to, size_t size)
{
	size_t n = ck_min(size, f->tail - f->head);

	if (n == 0)
		return 0;
	memcpy(to, f->buf + f->head, n);
	f->head += n; /* the thread that reads the connection may be using what is behind tail */
	return n;
}

static bool enlarge_buffer(struct ck_frames *f, size_t limit)
{
	size_t size = f->size ? 2 * f->size : FRAMES_START;
	unsigned char *bigger;

	if (f->size > limit)
		return false;
	bigger = realloc(f->buf, size);
	if (!bigger)
		return false;
	f->buf = bigger;
	f->size = size;
	return true;
}

/* The buffer is empty. */
static void rewind_empty(struct ck_frames *f)
{
	f->head = f->tail = 0;
	if (f->size > FRAMES_LARGE)
		ck_frames_fini(f);
}

/* A reader has a better place for long data than the buffer, which costs two copies. */
void *ck_frames_room(struct ck_frames *f, bool grow, size_t limit, size_t *size)
{
	if (f->head == f->tail)
		rewind_empty(f);
	if (f->head > 0 && f->size - f->tail < f->size / 8) {
		memmove(f->buf, f->buf + f->head, f->tail - f->head);
		f->tail -= f->head;
		f->head = 0;
	}
	if (f->size - f->tail < CK_FRAME_HEAD && (grow || !f->buf) && !enlarge_buffer(f, limit))
		return NULL;
	*size = f->size - f->tail;
	if (!grow)
		*size = ck_min(*size, (size_t)FRAMES_START);
	return *size > 0 ? f->buf + f->tail : NULL;
}

void ck_frames_passed(struct ck_frames *f, size_t n)
{
	f->received += n;
	f->left -= (uint32_t)n;
	if (f->left == 0 && f->asks) {
		f->asks = false;
		f->asked = true;
	}
}

static int take_head(struct ck_frames *f, const unsigned char head[CK_FRAME_HEAD])
{
	uint32_t length, count;

	memcpy(&length, head, 4);
	memcpy(&count, head + 4, 4);
	length = ntohl(length);
	f->confirmed = ntohl(count);
	f->heard = true;
	if (length == CK_FRAME_BYE) {
		f->bye = true;
		return 0;
	}
	f->left = length & ~CK_FRAME_ASKS;
	f->asks = length & CK_FRAME_ASKS;
	if (f->left > CK_FRAME_MAX)
		return -EPROTO;
	ck_frames_passed(f, 0); /* there may be no data */
	return 0;
}

/* Complete a head from @raw; returns the bytes used. */
static size_t complete_head(struct ck_frames *f, const unsigned char *raw, size_t size)
{
	size_t n = ck_min(size, sizeof(f->part) - f->part_size);

	memcpy(f->part + f->part_size, raw, n);
	f->part_size += n;
	return n;
}

int ck_frames_came(struct ck_frames *f, size_t n)
{
	size_t at = f->tail, end = f->tail + n, step;
	int ret;

	while (at < end && !f->bye) { /* nothing counts behind a goodbye */
		if (f->left > 0) {
			step = ck_min(end - at, (size_t)f->left);
			if (f->head == f->tail)
				f->head = f->tail = at;
			else if (at != f->tail)
				memmove(f->buf + f->tail, f->buf + at, step);
			f->tail += step;
			at += step;
			ck_frames_passed(f, step);
			continue;
		}
		at += complete_head(f, f->buf + at, end - at);
		if (f->part_size < CK_FRAME_HEAD)
			break;
		f->part_size = 0;
		ret = take_head(f, f->part);
		if (ret < 0)
			return ret;
	}
	return 0;
}

int ck_frames_part(struct ck_frames *f, size_t n)
{
	f->part_size += n;
	if (f->part_size < CK_FRAME_HEAD)
		return 0;
	f->part_size = 0;
	return take_head(f, f->part);
}

void ck_frame_encode(unsigned char head[CK_FRAME_HEAD], uint32_t length, uint64_t received)
{
	uint32_t word = htonl(length), count = htonl((uint32_t)received);

	memcpy(head, &word, 4);
	memcpy(head + 4, &count, 4);
}
