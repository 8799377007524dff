/*
 * tests/fuzz/fuzz_ptxhead.c - PTX text: head and kernels.
 */
#include <string.h>

#include "elf/ptxhead.h"
#include "tests/fuzz/standalone.h"

static void check_kernel(const struct ck_kernel *kernel)
{
	uint32_t end = 0;

	CK_FUZZ_CHECK(strlen(kernel->name) > 0);
	CK_FUZZ_CHECK(kernel->param_bytes <= CK_KERNEL_PARAM_MAX);
	for (uint32_t i = 0; i < kernel->param_count; i++) {
		CK_FUZZ_CHECK(kernel->params[i].offset >= end);
		end = kernel->params[i].offset + kernel->params[i].size;
	}
	CK_FUZZ_CHECK(end == kernel->param_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct ck_kernels kernels;
	struct ck_ptx_head head;

	if (ck_ptx_head(text, size, &head) == 0)
		CK_FUZZ_CHECK(head.sm <= 9999);
	if (ck_ptx_kernels(text, size, &kernels) == 0) {
		for (size_t i = 0; i < kernels.count; i++)
			check_kernel(&kernels.items[i]);
		ck_kernels_free(&kernels);
	}
	return 0;
}
