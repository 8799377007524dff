/*
 * rpc/transport/frames.h - the bytes of a lasting channel as they travel: frames in, a stream out.
 *
 * A frame is a head of 8 bytes, in network order, then data:
 *   32 bits: the length of the data, CK_FRAME_ASKS if the sender wants a confirmation after them,
 *   or CK_FRAME_BYE 32 bits: how many bytes of data the sender has received, modulo 2^32
 * A frame without data only confirms. This file parses frames; it makes no system call.
 */
#ifndef CK_RPC_TRANSPORT_FRAMES_H
#define CK_RPC_TRANSPORT_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CK_FRAME_HEAD 8
#define CK_FRAME_MAX (1u << 20)	  /* data of one frame */
#define CK_FRAME_ASKS 0x40000000u /* flag of the length */
#define CK_FRAME_BYE 0xffffffffu  /* the sender will send nothing more */

struct ck_frames {
	unsigned char *buf; /* NULL until bytes come */
	size_t size;
	size_t head, tail; /* data that has come and was not taken: buf[head, tail) */
	uint32_t left;	   /* data of the current frame that has not come */
	unsigned char part[CK_FRAME_HEAD];
	size_t part_size; /* bytes of a head that has not come completely */
	uint64_t received;
	uint32_t confirmed; /* by the last head */
	bool heard;	    /* there was a head since the owner looked */
	bool asks, asked;   /* the current frame asks; a frame that has come completely did */
	bool bye;
};

void ck_frames_fini(struct ck_frames *f);

/* Another connection follows: forget an incomplete head and the missing bytes of a frame. */
void ck_frames_restart(struct ck_frames *f);

static inline size_t ck_frames_ready(const struct ck_frames *f)
{
	return f->tail - f->head;
}

/* Take up to @size bytes that have come; returns their number. */
size_t ck_frames_take(struct ck_frames *f, void *to, size_t size);

/* Where to put the next bytes of the connection; *@size: how many fit. With @grow, there is room
 * unless @limit bytes wait already (NULL), or memory is short (NULL). */
void *ck_frames_room(struct ck_frames *f, bool grow, size_t limit, size_t *size);

/* @n bytes of the connection are there. -EPROTO: no peer sends this. */
int ck_frames_came(struct ck_frames *f, size_t n);

/* @n bytes of the current frame's data went elsewhere: at most left of them, and none may be
 * ready. */
void ck_frames_passed(struct ck_frames *f, size_t n);

/* @n bytes of a head were read, between two frames, to part + part_size. -EPROTO. */
int ck_frames_part(struct ck_frames *f, size_t n);

void ck_frame_encode(unsigned char head[CK_FRAME_HEAD], uint32_t length, uint64_t received);

#endif
