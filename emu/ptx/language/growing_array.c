/*
 * emu/ptx/language/growing_array.c - arrays that grow.
 */
#include <errno.h>
#include <stdlib.h>

#include "emu/ptx/language/module.h"

int ck_ptx_room(void *array, uint32_t *room, uint32_t count, size_t size)
{
	void **at = array;
	void *grown;
	uint32_t more;

	if (count < *room)
		return 0;
	if (*room > UINT32_MAX / 2)
		return -ENOMEM;
	more = *room ? *room * 2 : 16;
	grown = reallocarray(*at, more, size);
	if (!grown)
		return -ENOMEM;
	*at = grown;
	*room = more;
	return 0;
}
