/*
 * loader/vdso.c - the kernel's own library at a fixed address, so that a process has the same
 * layout each time. ASLR stays on: it has nothing else to move that a half uses.
 */
#include <linux/auxvec.h>

#include "loader/half.h"
#include "loader/maps.h"
#include "loader/window.h"

struct range {
	uint64_t lo, hi, library;
};

static void widen_range(const struct ck_mapping *m, void *argument)
{
	struct range *r = argument;

	if (!ck_starts(m->name, "[vvar") && ck_strcmp(m->name, "[vdso]"))
		return;
	if (!r->hi || m->start < r->lo)
		r->lo = m->start;
	if (m->end > r->hi)
		r->hi = m->end;
	if (!ck_strcmp(m->name, "[vdso]"))
		r->library = m->start;
}

/* The kernel gives a second one only when the first is gone; where it gives none, libc does
 * without. */
void ck_vdso_pin(uint64_t *auxv)
{
	struct range r = {0};

	while (auxv[0] != AT_NULL && auxv[0] != AT_SYSINFO_EHDR)
		auxv += 2;
	ck_maps_each(widen_range, &r);
	if (auxv[0] == AT_NULL || !r.library || r.hi - r.lo > CK_VDSO_SIZE)
		return;
	sys2(__NR_munmap, r.lo, r.hi - r.lo);
	r = (struct range){0};
	if (!is_error(sys2(__NR_arch_prctl, ARCH_MAP_VDSO_64, CK_VDSO_AT)))
		ck_maps_each(widen_range, &r);
	if (r.library)
		auxv[1] = r.library;
	else
		auxv[0] = AT_IGNORE;
}
