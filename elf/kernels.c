/*
 * elf/kernels.c - lists of kernels; see kernels.h.
 */
#include <stdlib.h>
#include <string.h>

#include "elf/kernels.h"
#include "util/util.h"

struct ck_kernel *ck_kernels_add(struct ck_kernels *kernels, const char *name, size_t size)
{
	size_t count = kernels->count;
	struct ck_kernel *items = kernels->items, *kernel;

	if ((count & (count - 1)) == 0) { /* full: capacities are powers of two */
		items = reallocarray(items, count ? count * 2 : 1, sizeof(*items));
		if (!items)
			return NULL;
		kernels->items = items;
	}
	kernel = &items[count];
	*kernel = (struct ck_kernel){.name = strndup(name, size)};
	if (!kernel->name)
		return NULL;
	kernels->count++;
	return kernel;
}

unsigned int ck_kernels_prints_by(const char *name, size_t size)
{
	static const struct {
		const char *name;
		unsigned int prints;
	} functions[] = {{"vprintf", CK_PRINTS_TEXT}, {"__assertfail", CK_PRINTS_FAILURE}};

	for (size_t i = 0; i < CK_ARRAY_SIZE(functions); i++) {
		if (strlen(functions[i].name) == size && memcmp(functions[i].name, name, size) == 0)
			return functions[i].prints;
	}
	return 0;
}

void ck_kernels_free(struct ck_kernels *kernels)
{
	for (size_t i = 0; i < kernels->count; i++) {
		free(kernels->items[i].name);
		free(kernels->items[i].params);
	}
	free(kernels->items);
	*kernels = (struct ck_kernels){0};
}
