/*
 * tests/fuzz/fuzz_cubin.c - cubins: kernels and their parameters.
 */
#include <errno.h>
#include <string.h>

#include "elf/cubin.h"
#include "elf/nvinfo.h"
#include "tests/fuzz/standalone.h"

/* What the code that packs parameters for a launch relies on. */
static void check_kernel(const struct ck_kernel *kernel)
{
	CK_FUZZ_CHECK(kernel->name && strlen(kernel->name) > 0);
	CK_FUZZ_CHECK(kernel->param_bytes <= CK_KERNEL_PARAM_MAX);
	CK_FUZZ_CHECK((kernel->param_count == 0) == (kernel->params == NULL));
	for (uint32_t i = 0; i < kernel->param_count; i++) {
		const struct ck_kernel_param *param = &kernel->params[i];

		CK_FUZZ_CHECK(param->offset <= kernel->param_bytes);
		CK_FUZZ_CHECK(param->size <= kernel->param_bytes - param->offset);
	}
}

/* The bytes taken for a single .nv.info section, which few changes of a whole file reach. */
static void check_section(const uint8_t *data, size_t size)
{
	struct ck_kernel kernel = {.name = (char *)"k"};

	if (ck_nvinfo_kernel(data, size, &kernel) == 0)
		check_kernel(&kernel);
	free(kernel.params);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ck_kernels kernels;
	unsigned sm = 0;

	check_section(data, size);
	if (ck_cubin_sm(data, size, &sm) == 0)
		CK_FUZZ_CHECK(sm <= 255);
	if (ck_cubin_kernels(data, size, &kernels) == 0) {
		for (size_t i = 0; i < kernels.count; i++)
			check_kernel(&kernels.items[i]);
		ck_kernels_free(&kernels);
	}
	return 0;
}
