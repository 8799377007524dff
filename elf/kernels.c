/*
 * elf/kernels.c - lists of kernels and variables; see kernels.h.
 */
#include <stdlib.h>
#include <string.h>

#include "elf/kernels.h"
#include "util/util.h"

/* Make room for one more; capacities are powers of two, so that `count` tells when to grow. */
static void *grown(void *items, size_t count, size_t item_size)
{
	if (count & (count - 1))
		return items;
	return reallocarray(items, count ? count * 2 : 1, item_size);
}

struct ck_kernel *ck_kernels_add(struct ck_kernels *kernels, const char *name, size_t size)
{
	struct ck_kernel *items = grown(kernels->items, kernels->count, sizeof(*items)), *kernel;

	if (!items)
		return NULL;
	kernels->items = items;
	kernel = &items[kernels->count];
	*kernel = (struct ck_kernel){.name = strndup(name, size)};
	if (!kernel->name)
		return NULL;
	kernels->count++;
	return kernel;
}

struct ck_variable *ck_variables_add(struct ck_variables *variables, const char *name, size_t size)
{
	struct ck_variable *items = grown(variables->items, variables->count, sizeof(*items));
	struct ck_variable *variable;

	if (!items)
		return NULL;
	variables->items = items;
	variable = &items[variables->count];
	*variable = (struct ck_variable){.name = strndup(name, size)};
	if (!variable->name)
		return NULL;
	variables->count++;
	return variable;
}

bool ck_kernels_prints_by(const char *name, size_t size)
{
	static const char *const names[] = {"vprintf", "__assertfail"};

	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0)
			return true;
	}
	return false;
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

void ck_variables_free(struct ck_variables *variables)
{
	for (size_t i = 0; i < variables->count; i++)
		free(variables->items[i].name);
	free(variables->items);
	*variables = (struct ck_variables){0};
}
