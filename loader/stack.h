/*
 * loader/stack.h - the stack that a program finds when it starts.
 */
#ifndef CK_LOADER_STACK_H
#define CK_LOADER_STACK_H

#include "loader/sys.h"

/* A list of strings that grows; a string that does not fit is an error of the command line. */
struct ck_list {
	char **at;
	size_t count, size;
};

void ck_list_add(struct ck_list *list, const char *string);

/* The auxiliary vector for ld.so, as if it had been started as a program. */
struct ck_aux {
	uint64_t phdr, phnum, entry;
	const char *name;
};

/*
 * Lays argc, argv, envp and the auxiliary vector below @top; the strings stay where they are.
 * Returns the stack pointer to start with. @auxv is the process's own.
 */
uint64_t ck_stack_build(uint64_t top, const struct ck_list *args, const struct ck_list *env,
			const uint64_t *auxv, const struct ck_aux *aux);

#endif
