/*
 * loader/stubs/cuda.h - the parts of libcuda.so.1 for the application.
 */
#ifndef CK_LOADER_STUBS_CUDA_H
#define CK_LOADER_STUBS_CUDA_H

#include <stdbool.h>

/* Generated: the application's address of each function, in the order of the table; and entries
 * for functions that have no name, NULL when @i is too large. */
extern const unsigned int lh_count;
extern void *const lh_entries[];
void *lh_dynamic_entry(unsigned int i);

/*
 * The function that the application may call in place of @function, an address of the lower half:
 * the entry of that name, or one that is made for it. When none is left, one that refuses the call.
 */
void *lh_upper_address(void *function);

/*
 * Makes the functions of a table of the lower half, in place, such as the application may call; @id
 * is the table's UUID. False, with a line on stderr: it cannot be changed.
 */
bool lh_turn_table(void **table, const void *id);

/* Whether code lies at @address. */
int lh_is_code(const void *address);

/* A function of the application as the lower half may call it, from any thread. */
void *lh_host_function(void *function);

#endif
