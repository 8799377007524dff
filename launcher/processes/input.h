/*
 * launcher/processes/input.h - messages from a pipe or socket, one after the other, into blocks.
 *
 * A JSON message ends with its closing brace: neither a newline nor the end of the input is waited
 * for.
 */
#ifndef CK_LAUNCHER_PROCESSES_INPUT_H
#define CK_LAUNCHER_PROCESSES_INPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/processes/block.h"
#include "launcher/text/failure.h"
#include "launcher/text/scan.h"

#define CK_INPUT_PENDING 65536

struct ckl_input {
	int fd;
	uint64_t limit; /* most bytes of a message */
	size_t base;	/* where in the block the message goes */
	size_t have;	/* of it */
	bool frame;
	uint64_t frame_size;  /* 0: not known yet */
	struct ckl_scan scan; /* of a JSON message; the taker of a complete one moves it */
	char *pending;	      /* read and not used */
	size_t pending_at, pending_size;
	bool ended;
};

int ckl_input_open(struct ckl_input *input, int fd, uint64_t limit);
void ckl_input_close(struct ckl_input *input);

/*
 * Begin a message that goes to @base of the block. All of the former one is dropped except for the
 * pending bytes.
 */
void ckl_input_begin(struct ckl_input *input, size_t base);

/*
 * Read once, without waiting if there is something pending. 1: a message is complete, input->have
 * bytes at input->base of the block; 0: not yet, or the input has ended (input->ended). A message
 * that is none gives a negative errno with the failure set; nothing can be read after it.
 */
int ckl_input_read(struct ckl_input *input, struct ckl_block *block, struct ckl_fail *fail);

#endif
