/*
 * launcher/processes/input.c - find messages in a stream of bytes; see input.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/processes/input.h"
#include "launcher/text/frame.h"

#define PIECE_MAX ((size_t)8 << 20)
#define PIPE_SIZE (1 << 20)

int ckl_input_open(struct ckl_input *input, int fd, uint64_t limit)
{
	*input = (struct ckl_input){.fd = fd, .limit = limit, .pending = malloc(CK_INPUT_PENDING)};
	fcntl(fd, F_SETPIPE_SZ, PIPE_SIZE); /* a pipe then needs fewer reads */
	return input->pending ? 0 : -ENOMEM;
}

void ckl_input_close(struct ckl_input *input)
{
	ckl_scan_free(&input->scan);
	free(input->pending);
	input->pending = NULL;
}

void ckl_input_begin(struct ckl_input *input, size_t base)
{
	ckl_scan_free(&input->scan);
	input->base = base;
	input->have = 0;
	input->frame = false;
	input->frame_size = 0;
}

/* Blanks between messages belong to no message. */
static void skip_blanks(struct ckl_input *input)
{
	while (input->pending_size > 0 && input->have == 0 &&
	       memchr(" \n\r\t", input->pending[input->pending_at], 4)) {
		input->pending_at++;
		input->pending_size--;
	}
}

/* How many of the bytes belong to the message. 1: *size of them; 0: all, and more will come. */
static int frame_end(struct ckl_input *input, const char *text, size_t have, size_t *size,
		     struct ckl_fail *fail)
{
	int ret = 0;

	if (have < CK_FRAME_HEAD)
		return 0;
	if (!input->frame_size)
		ret = ckl_frame_size(text, &input->frame_size);
	if (ret < 0)
		return ckl_fail_input(fail, ret == -EPROTO ? "a frame of another version"
							   : "this is not a frame");
	if (input->frame_size > input->limit)
		return ckl_fail(fail, CK_EXIT_MEMORY, "memory", "MESSAGE_TOO_LARGE",
				"a frame of %llu bytes; %llu are allowed",
				(unsigned long long)input->frame_size,
				(unsigned long long)input->limit);
	*size = (size_t)input->frame_size;
	return have >= input->frame_size;
}

static int text_end(struct ckl_input *input, const char *text, size_t have, size_t *size,
		    struct ckl_fail *fail)
{
	int ret = ckl_scan(&input->scan, text, have);

	if (ret == -ENOMEM)
		return ckl_fail_memory(fail);
	if (ret == -E2BIG)
		return ckl_fail_input(fail, "nested more than %d deep", CK_SCAN_DEPTH);
	if (ret < 0)
		return ckl_fail_input(fail, "this is not a JSON object");
	*size = input->scan.at;
	if (*size > input->limit)
		return ckl_fail(fail, CK_EXIT_MEMORY, "memory", "MESSAGE_TOO_LARGE",
				"a message of more than %llu bytes",
				(unsigned long long)input->limit);
	return ret;
}

static int find_end(struct ckl_input *input, const char *text, size_t have, size_t *size,
		    struct ckl_fail *fail)
{
	input->frame = have > 0 && (unsigned char)*text == CK_FRAME_FIRST;
	if (have == 0)
		return 0;
	return input->frame ? frame_end(input, text, have, size, fail)
			    : text_end(input, text, have, size, fail);
}

/* The pending bytes, or as many as the message has, into the block. */
static int use_pending(struct ckl_input *input, struct ckl_block *block, struct ckl_fail *fail)
{
	const char *from = input->pending + input->pending_at;
	size_t size = input->pending_size;
	int ret = find_end(input, from, size, &size, fail);

	if (ret < 0)
		return ret;
	if (ret == 0)
		size = input->pending_size;
	if (ckl_block_map(block, input->base + size, 1) < 0)
		return ckl_fail_memory(fail);
	memcpy(block->map + input->base, from, size);
	input->have = size;
	input->pending_at += size;
	input->pending_size -= size;
	return ret;
}

/* Bytes behind the end of a message in the block belong to the next one. */
static void leave_rest(struct ckl_input *input, struct ckl_block *block, size_t end)
{
	memcpy(input->pending, block->map + input->base + end, input->have - end);
	input->pending_at = 0;
	input->pending_size = input->have - end;
	input->have = end;
}

/* Straight into the block. Beyond a text's end at most as much is read as can be pending. */
static int read_block(struct ckl_input *input, struct ckl_block *block, struct ckl_fail *fail)
{
	size_t piece = CK_INPUT_PENDING, end = 0;
	ssize_t n;
	int ret;

	if (input->frame_size)
		piece = ck_min((size_t)input->frame_size - input->have, PIECE_MAX);
	/* Grow by half, so that copies of a growing map are rare. */
	if (input->base + input->have + piece > block->capacity &&
	    ckl_block_map(block,
			  ck_max(input->base + (size_t)input->frame_size + 1,
				 (input->base + input->have + piece) / 2 * 3),
			  1) < 0)
		return ckl_fail_memory(fail);
	n = read(input->fd, block->map + input->base + input->have, piece);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n <= 0) {
		input->ended = true;
		return 0;
	}
	input->have += (size_t)n;
	ret = find_end(input, block->map + input->base, input->have, &end, fail);
	if (ret == 1)
		leave_rest(input, block, end);
	return ret;
}

int ckl_input_read(struct ckl_input *input, struct ckl_block *block, struct ckl_fail *fail)
{
	ssize_t n;

	skip_blanks(input);
	if (input->have > 0)
		return read_block(input, block, fail);
	if (input->pending_size > 0)
		return use_pending(input, block, fail);
	n = read(input->fd, input->pending, CK_INPUT_PENDING);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	input->ended = n <= 0;
	input->pending_at = 0;
	input->pending_size = n > 0 ? (size_t)n : 0;
	skip_blanks(input);
	return input->pending_size > 0 ? use_pending(input, block, fail) : 0;
}
