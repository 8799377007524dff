/*
 * emu/ptx/run/fault.c - the fault that ended a grid, in a line on stderr: more than a device would
 * say.
 */
#include <stdio.h>

#include "emu/ptx/run/grid.h"
#include "util/log.h"

CK_LOG_DEFINE("emu");

static const char *describe_fault(int err, unsigned int op)
{
	switch (err) {
	case CUDA_ERROR_ILLEGAL_ADDRESS:
		return "an illegal address";
	case CUDA_ERROR_MISALIGNED_ADDRESS:
		return "a misaligned address";
	case CUDA_ERROR_INVALID_PC:
		return "a jump or call to nowhere";
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
		return "no room on the stack";
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
		return "an operand that is not allowed";
	case CUDA_ERROR_LAUNCH_FAILED:
		return op == CK_PTX_OP_TRAP ? "a trap" : "a block that has ended, at";
	default:
		return NULL;
	}
}

/* Where an offset in a window of its own is meant, that window's name. */
static const char *space_name(unsigned int space)
{
	static const char *const names[] = {[CK_PTX_SHARED] = " of shared memory",
					    [CK_PTX_LOCAL] = " of local memory",
					    [CK_PTX_CONST] = " of constant memory",
					    [CK_PTX_PARAM] = " of the parameters"};

	return space < CK_ARRAY_SIZE(names) && names[space] ? names[space] : "";
}

/* " 0x10 of shared memory"; of global memory, with the allocation. */
static void format_address(const struct ck_ptx_warp *w, const struct ck_ptx_insn *in, char *text,
			   size_t size)
{
	const struct ck_ptx_host *host = w->block->run->host;
	const char *space = space_name(in->space);
	int n = snprintf(text, size, " %#llx%s", (unsigned long long)w->fault_address, space);

	if (!*space && host->describe)
		host->describe(host->opaque, w->fault_address, text + n, size - (size_t)n);
}

int ck_ptx_fault(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask, int err)
{
	const struct ck_ptx_block *block = w->block;
	const uint32_t *size = block->run->grid->block;
	bool memory = err == CUDA_ERROR_ILLEGAL_ADDRESS || err == CUDA_ERROR_MISALIGNED_ADDRESS ||
		      (err == CUDA_ERROR_LAUNCH_FAILED && in->op != CK_PTX_OP_TRAP);
	uint32_t lane = mask ? (uint32_t)__builtin_ctz(mask) : 0, thread;
	char address[160] = "", line[700];

	if (!describe_fault(err, in->op))
		return err;
	if (memory && w->fault_lane != CK_PTX_NONE) {
		lane = w->fault_lane;
		format_address(w, in, address, sizeof(address));
	}
	thread = w->index * CK_PTX_LANES + lane;
	ck_err("kernel %s, block %u,%u,%u, thread %u,%u,%u: %s%s in '%s', %s",
	       block->run->kernel->info.name, block->id[0], block->id[1], block->id[2],
	       thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1],
	       describe_fault(err, in->op), address, ck_ptx_op_name(in->op),
	       ck_ptx_source_format(block->run->module, in, line, sizeof(line)));
	return err;
}
