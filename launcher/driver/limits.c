/*
 * launcher/driver/limits.c - see driver.h.
 */
#include <stdint.h>
#include <stdio.h>

#include "launcher/driver/driver.h"
#include "util/util.h"

#define LIMITS 8

static const struct limit {
	int attribute; /* CU_DEVICE_ATTRIBUTE_MAX_... */
	const char *whose, *unit;
} limits[LIMITS] = {
	{2, "block", "threads in x"}, {3, "block", "threads in y"},
	{4, "block", "threads in z"}, {1, "block", "threads"},
	{5, "grid", "blocks in x"},   {6, "grid", "blocks in y"},
	{7, "grid", "blocks in z"},   {97, "block", "bytes of dynamic shared memory"},
};

/* Is a size of grid or block 0? */
static bool is_empty(const struct ckl_request *r)
{
	for (int i = 0; i < 3; i++) {
		if (r->grid[i] == 0 || r->block[i] == 0)
			return true;
	}
	return false;
}

void ckl_limits_explain(const struct ckl_driver *driver, const struct ckl_request *request,
			char *out, size_t size)
{
	const uint32_t *grid = request->grid, *block = request->block;
	/* the product is only looked at if each factor is within its limit: it does not overflow */
	const uint64_t values[LIMITS] = {
		block[0], block[1], block[2], (uint64_t)block[0] * block[1] * block[2],
		grid[0],  grid[1],  grid[2],  request->shared};
	int most;

	out[0] = '\0';
	if (is_empty(request)) {
		snprintf(out, size, "each size of a grid and of a block is at least 1");
		return;
	}
	for (size_t i = 0; i < LIMITS; i++) {
		if (!driver->device_attribute(&most, limits[i].attribute, driver->device) &&
		    values[i] > (uint64_t)most) {
			snprintf(out, size, "a %s has at most %d %s", limits[i].whose, most,
				 limits[i].unit);
			return;
		}
	}
}
