/*
 * loader/stubs/mpi_known.c - see mpi_known.h.
 */
#include <stdio.h>
#include <string.h>

#include "loader/stubs/mpi_known.h"

#define SLOTS 1024

struct slot {
	void *from, *to;
};

static struct slot to_lower[SLOTS], to_upper[SLOTS];

void lh_routine_arguments(unsigned int index, void **arguments);

long lh_stub_error(const char *name)
{
	fprintf(stderr, "kernel-loader: %s: no MPI half is loaded\n", name);
	return lh_stub_code;
}

/* --- addresses */

static unsigned int slot_of(const void *address)
{
	uintptr_t a = (uintptr_t)address;

	return (unsigned int)(a >> 5 ^ a >> 14) % SLOTS;
}

static inline void *look(const struct slot *slots, void *address)
{
	for (unsigned int i = slot_of(address);; i = (i + 1) % SLOTS) {
		if (slots[i].from == address)
			return slots[i].to;
		if (!slots[i].from)
			return address;
	}
}

static void put(struct slot *slots, void *from, void *to)
{
	unsigned int i = slot_of(from);

	while (slots[i].from && slots[i].from != from)
		i = (i + 1) % SLOTS;
	slots[i] = (struct slot){from, to};
}

/* After stub.c's, which finds the half. */
__attribute__((constructor(102))) static void learn(void)
{
	void **table = lh_half_at ? lh_half_at->table : NULL;

	for (const struct lh_known *k = lh_known; table && k->here; k++) {
		void *there = table[k->index];

		if (there && k->pointed)
			there = *(void **)there;
		if (!there)
			continue;
		put(to_lower, k->here, there);
		put(to_upper, there, k->here);
	}
}

void *lh_in(void *address)
{
	return look(to_lower, address);
}

void *lh_out(void *address)
{
	return look(to_upper, address);
}

/* --- functions */

/* In Fortran, and those of MPICH's own libraries for languages, they have up to eight arguments. */
long lh_call_plain(long a, long b, long c, long d, long e, long f, void *user, const long *stack)
{
	return ((int (*)(long, long, long, long, long, long, long, long))user)(a, b, c, d, e, f,
									       stack[0], stack[1]);
}

void *lh_thunk(lh_target target, void *function)
{
	void *known = lh_in(function), *thunk;

	/* MPI's own: null functions, and those that copy attributes */
	if (!function || known != function)
		return known;
	thunk = lh_callback(target, function);
	if (!thunk)
		fprintf(stderr, "kernel-loader: mpi: too many different callbacks\n");
	return thunk;
}

/* From call_routine.S. @arguments: those in registers first, then those on the stack. */
__attribute__((visibility("hidden"))) void lh_routine_arguments(unsigned int index,
								void **arguments)
{
	const struct lh_routine *r = &lh_routines[index - lh_first_routine];

	for (unsigned int i = 0; i < r->arguments; i++)
		arguments[i] = r->functions >> i & 1 ? lh_thunk(lh_call_plain, arguments[i])
						     : lh_in(arguments[i]);
	/* not before any call: a program may pass the same variable twice */
	if (r->error && (!lh_half_at || !lh_half_at->table || !lh_half_at->table[index]))
		*(int *)arguments[r->error - 1] = lh_stub_code;
}
