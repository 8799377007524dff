/*
 * loader/stack.c - argc, argv, envp and auxv as the kernel lays them.
 */
#include <linux/auxvec.h>

#include "loader/stack.h"

void ck_list_add(struct ck_list *list, const char *string)
{
	if (list->count + 1 >= list->size)
		ck_die("too many arguments or variables: more than %u", (unsigned int)list->size);
	list->at[list->count++] = (char *)string;
	list->at[list->count] = NULL;
}

static uint64_t aux_value(uint64_t type, uint64_t value, const struct ck_aux *aux)
{
	switch (type) {
	case AT_PHDR:
		return aux->phdr;
	case AT_PHNUM:
		return aux->phnum;
	case AT_ENTRY:
		return aux->entry;
	case AT_EXECFN:
		return (uint64_t)aux->name;
	case AT_BASE:
		return 0;
	default:
		return value;
	}
}

static uint64_t *put_list(uint64_t *at, const struct ck_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		*at++ = (uint64_t)list->at[i];
	*at++ = 0;
	return at;
}

/* The stack pointer is a multiple of 16 where argc lies: ld.so dies of anything else. */
uint64_t ck_stack_build(uint64_t top, const struct ck_list *args, const struct ck_list *env,
			const uint64_t *auxv, const struct ck_aux *aux)
{
	size_t pairs = 0, words;
	uint64_t *start, *at;

	while (auxv[2 * pairs] != AT_NULL)
		pairs++;
	words = 1 + args->count + 1 + env->count + 1 + 2 * (pairs + 1);
	start = (uint64_t *)((top - words * sizeof(*start)) & -16ull);
	at = start;
	*at++ = args->count;
	at = put_list(at, args);
	at = put_list(at, env);
	for (size_t i = 0; i <= pairs; i++) {
		*at++ = auxv[2 * i];
		*at++ = aux_value(auxv[2 * i], auxv[2 * i + 1], aux);
	}
	return (uint64_t)start;
}
