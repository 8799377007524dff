/*
 * server/evacuation/pieces.c - which memory can move; see evacuation.h.
 *
 * Memory that other processes have does not come here: such a session is not suspended at all.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "cricket.h"
#include "server/evacuation/pieces.h"
#include "server/memory/lease.h"
#include "server/memory/memory.h"
#include "server/session/session.h"
#include "util/util.h"

static void describe_unit(const struct cks_session *s, const struct cks_allocation *a,
			  struct cks_evacuated *p)
{
	*p = (struct cks_evacuated){
		.at = a->address,
		.size = a->size,
		.device = a->device,
		.writers = s->leases->access[a->device],
		.prop = cks_lease_prop(a->device),
		.handle = a->physical,
		.leased = true,
	};
}

static bool read_access(const struct cks_session *s, struct cks_evacuated *p)
{
	CUmemLocation place = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	unsigned long long flags;

	for (place.id = 0; place.id < s->device_count; place.id++) {
		if (ck_driver.cuMemGetAccess(&flags, &place, p->at))
			return false;
		if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			p->writers |= (uint64_t)1 << place.id;
		else if (flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
			p->readers |= (uint64_t)1 << place.id;
	}
	return true;
}

/* The properties of the memory that is mapped there. */
static bool read_prop(struct cks_evacuated *p)
{
	CUmemGenericAllocationHandle handle;
	CUresult err = ck_driver.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)p->at);

	if (err)
		return false;
	err = ck_driver.cuMemGetAllocationPropertiesFromHandle(&p->prop, handle);
	ck_driver.cuMemRelease(handle);
	p->prop.win32HandleMetaData = NULL;
	p->device = p->prop.location.id;
	return !err && p->prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE && p->device >= 0 &&
	       p->device < CK_MAX_DEVICES;
}

/* Memory that the program has mapped itself: once, as a whole. A second handle would have tied
 * it. */
static bool describe_mapping(struct cks_session *s, const struct cks_allocation *a,
			     struct cks_evacuated *p)
{
	*p = (struct cks_evacuated){.at = a->address, .size = a->size};
	if (!a->whole || !ck_driver.cuMemGetAccess || !ck_driver.cuMemRetainAllocationHandle ||
	    !ck_driver.cuMemGetAllocationPropertiesFromHandle ||
	    cks_memory_mappings(s->memory, a->physical) != 1)
		return false;
	if (cks_handles_known(s->handles, CK_KIND_PHYSICAL, (void *)(uintptr_t)a->physical, &p->id))
		p->handle = a->physical;
	return read_prop(p) && read_access(s, p);
}

int cks_evacuation_list(struct cks_session *s, struct cks_evacuated **out, size_t *count)
{
	struct cks_allocation a = {.address = 0};
	struct cks_evacuated *list = NULL, *more;
	size_t room = 0;

	*count = 0;
	while (cks_memory_after(s->memory, a.address + a.size, &a)) {
		if (*count == room) {
			room = ck_max(2 * room, (size_t)64);
			more = realloc(list, room * sizeof(*list));
			if (!more)
				goto no_memory;
			list = more;
		}
		if (a.leased) {
			describe_unit(s, &a, &list[*count]);
			++*count;
		} else if (a.mapped && a.physical) {
			*count += describe_mapping(s, &a, &list[*count]);
		}
	}
	*out = list;
	return 0;
no_memory:
	free(list);
	*count = 0;
	return -ENOMEM;
}

void cks_evacuated_renew(struct cks_session *s, const struct cks_evacuated *p)
{
	struct cks_allocation a;
	struct cks_object object;

	cks_memory_renew(s->memory, p->at, p->handle);
	if (p->id && cks_handles_find(s->handles, p->id, CK_KIND_BIT(CK_KIND_PHYSICAL), &object)) {
		cks_handles_remove(s->handles, p->id);
		cks_handles_put(s->handles, p->id, CK_KIND_PHYSICAL, object.ctx,
				(void *)(uintptr_t)p->handle);
	} else if (cks_memory_find(s->memory, p->at, &a) && !a.leased) {
		ck_driver.cuMemRelease(p->handle);
	}
}
