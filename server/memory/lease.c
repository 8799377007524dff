/*
 * server/memory/lease.c - leases of device memory: created in advance, mapped, given back.
 *
 * The units are entries of the session's table of memory, which also hold their physical handles.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "gen/handlers.h"
#include "server/memory/lease.h"
#include "server/memory/memory.h"
#include "server/memory/share.h"
#include "server/memory/virtual.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define UNITS_MAX 65536 /* of one message */

/* Leased memory that the client has returned while the session was away. */
struct cks_late_end {
	CUdeviceptr at;
	size_t size;
	struct cks_late_end *next;
};

int cks_leases_create(struct cks_leases **out)
{
	struct cks_leases *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_LEASES);
	for (unsigned int i = 0; i < CK_MAX_DEVICES; i++)
		l->access[i] = (uint64_t)1 << i;
	*out = l;
	return 0;
}

void cks_leases_destroy(struct cks_leases *l)
{
	struct cks_late_end *late;

	if (!l)
		return;
	cks_lease_forget_ended(l, 0);
	while ((late = l->late) != NULL) {
		l->late = late->next;
		free(late);
	}
	ck_mutex_destroy(&l->lock);
	ck_cond_destroy(&l->thawed);
	free(l);
}

static bool device_reaches(CUdevice device, CUdevice other)
{
	int can = 0;

	return device == other || (ck_driver.cuDeviceCanAccessPeer &&
				   !ck_driver.cuDeviceCanAccessPeer(&can, device, other) && can);
}

/* Copies would fail between devices that do not reach each other, which the driver's own memory
 * allows. */
static bool devices_reach(void)
{
	int count = 0;
	bool all = !ck_driver.cuDeviceGetCount(&count);

	for (int i = 0; i < count * count && all; i++)
		all = device_reaches(i / count, i % count);
	return all;
}

/* False: the driver is too old for leases. */
static bool is_supported(void)
{
	return cks_virtual_supported() && ck_driver.cuCtxSynchronize &&
	       ck_driver.cuCtxPushCurrent_v2 && ck_driver.cuCtxPopCurrent_v2;
}

bool cks_lease_possible(void)
{
	return is_supported() && ck_driver.cuDeviceGetCount && devices_reach();
}

/* --- units */

static void unit_end(CUdeviceptr at, size_t size, CUmemGenericAllocationHandle handle)
{
	CUresult err = ck_driver.cuMemUnmap(at, size);

	if (err)
		ck_warn("leased memory at %#llx: %s", (unsigned long long)at, cks_error_name(err));
	ck_driver.cuMemRelease(handle);
}

CUmemAllocationProp cks_lease_prop(CUdevice device)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
	};
}

static CUresult unit_begin(CUdevice device, CUdeviceptr at, size_t size,
			   CUmemGenericAllocationHandle *handle)
{
	CUmemAllocationProp prop = cks_lease_prop(device);
	CUresult err = ck_driver.cuMemCreate(handle, size, &prop, 0);

	if (err)
		return err;
	err = ck_driver.cuMemMap(at, size, 0, *handle, 0);
	if (err)
		ck_driver.cuMemRelease(*handle);
	return err;
}

CUresult cks_lease_map(CUdevice device, CUdeviceptr at, size_t size, size_t unit, uint64_t devices,
		       CUmemGenericAllocationHandle *handles)
{
	size_t count = size / unit, made = 0;
	CUresult err = CUDA_SUCCESS;

	for (; !err && made < count; made += !err)
		err = unit_begin(device, at + made * unit, unit, &handles[made]);
	if (!err)
		err = cks_virtual_grant(at, size, devices, 0);
	while (err && made-- > 0)
		unit_end(at + made * unit, unit, handles[made]);
	return err;
}

/* --- contexts on several devices */

/* Let @accessor use the leases of @device, those of today and later ones. Call with the lock
 * held. */
static void grant_access(struct cks_session *s, CUdevice device, CUdevice accessor)
{
	struct cks_allocation unit = {.address = 0};
	uint64_t bit = (uint64_t)1 << accessor;
	CUresult err = CUDA_SUCCESS;

	while (!err && cks_memory_after(s->memory, unit.address + unit.size, &unit)) {
		if (unit.leased && unit.device == device)
			err = cks_virtual_grant(unit.address, unit.size, bit, 0);
	}
	if (err)
		ck_warn("device %d cannot use leased memory of device %d: %s", accessor, device,
			cks_error_name(err));
	else
		s->leases->access[device] |= bit;
}

void cks_lease_meet(struct cks_session *s, CUdevice device)
{
	struct cks_leases *l = s->leases;

	if (device < 0 || device >= CK_MAX_DEVICES || !cks_virtual_supported())
		return;
	ck_lock(&l->lock);
	if (l->met >> device & 1)
		goto unlock;
	for (CUdevice other = 0; other < CK_MAX_DEVICES; other++) {
		if (l->met >> other & 1) {
			grant_access(s, device, other);
			grant_access(s, other, device);
		}
	}
	l->met |= (uint64_t)1 << device;
unlock:
	ck_unlock(&l->lock);
}

/* --- leases */

static bool is_sound(const struct cks_session *s, CUdevice device, CUdeviceptr at, size_t size,
		     size_t unit)
{
	return device >= 0 && device < s->device_count && at != 0 && at % CK_LEASE_CHUNK == 0 &&
	       unit > 0 && unit % CK_LEASE_CHUNK == 0 && size > 0 && size % unit == 0 &&
	       size / unit <= UNITS_MAX && at + size > at &&
	       !cks_memory_overlaps(s->memory, at, size);
}

/* Call with the lock held. */
static CUresult begin_lease(struct cks_session *s, CUdevice device, CUdeviceptr at, size_t size,
			    size_t unit)
{
	size_t count = size / unit, noted = 0;
	CUmemGenericAllocationHandle *handles = calloc(count, sizeof(*handles));
	CUresult err =
		handles ? cks_lease_map(device, at, size, unit, s->leases->access[device], handles)
			: CUDA_ERROR_OUT_OF_MEMORY;

	if (err)
		goto out;
	for (; !err && noted < count; noted += !err)
		err = cks_memory_lease(s->memory, device, at + noted * unit, unit, handles[noted]);
	if (!err)
		goto out;
	cks_memory_unmap(s->memory, at, noted * unit);
	for (size_t i = 0; i < count; i++)
		unit_end(at + i * unit, unit, handles[i]);
out:
	free(handles);
	return err;
}

CUresult cks_lease(struct cks_session *s, CUdevice device, CUdeviceptr at, size_t size, size_t unit)
{
	CUresult err;

	if (!cks_lease_possible())
		return CUDA_ERROR_NOT_SUPPORTED;
	ck_lock(&s->leases->lock);
	err = is_sound(s, device, at, size, unit) ? begin_lease(s, device, at, size, unit)
						  : CUDA_ERROR_INVALID_VALUE;
	ck_unlock(&s->leases->lock);
	return err;
}

CUresult ck_serve_lease(struct cks_request *q, ck_lease_args *a, ck_lease_res *res)
{
	(void)res;
	cks_lease_await_thaw(q);
	return cks_lease(q->session, a->device, a->at, a->size, a->unit);
}

/* A context that was released or reset can still be made current; it has no work. */
static bool has_ended(CUresult err)
{
	return err == CUDA_ERROR_CONTEXT_IS_DESTROYED || err == CUDA_ERROR_INVALID_CONTEXT;
}

/* Wait for the work of every context: any of them may use the memory. */
static CUresult wait_for_contexts(struct cks_session *s)
{
	struct cks_object object;
	CUcontext popped;
	uint64_t id = 0;
	CUresult err = CUDA_SUCCESS;

	while (!err && cks_handles_next(s->handles, &id, CK_KIND_CONTEXT, &object)) {
		if (ck_driver.cuCtxPushCurrent_v2(object.handle))
			continue;
		err = cks_context_wait(s, id);
		if (has_ended(err))
			err = CUDA_SUCCESS;
		ck_driver.cuCtxPopCurrent_v2(&popped);
	}
	return err;
}

CUresult ck_serve_lease_settle(struct cks_request *q, ck_lease_settle_args *a, void *res)
{
	(void)a;
	(void)res;
	return is_supported() ? wait_for_contexts(q->session) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult ck_serve_order(struct cks_request *q, ck_order_args *a, void *res)
{
	CUstream before, after;
	CUevent event;
	CUresult err;

	(void)res;
	if (!cks_stream_find(q, a->after, &after))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!cks_stream_find(q, a->before, &before)) /* it has ended since */
		return cks_lease_order_ended(q->session->leases, after);
	err = ck_driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (err)
		return err;
	err = ck_driver.cuEventRecord(event, before);
	if (!err)
		err = ck_driver.cuStreamWaitEvent(after, event, 0);
	ck_driver.cuEventDestroy_v2(event);
	return err;
}

/* Are there nothing but whole units of leases in [at, at+size)? */
static bool is_leased(struct cks_memory *m, CUdeviceptr at, size_t size)
{
	CUdeviceptr end = at + size;
	struct cks_allocation unit;

	if (size == 0 || end < at)
		return false;
	while (at < end && cks_memory_find(m, at, &unit) && unit.leased && unit.address == at)
		at += unit.size;
	return at == end;
}

void cks_lease_drop(struct cks_session *s, CUdeviceptr at, size_t size)
{
	CUdeviceptr end = at + size;
	struct cks_allocation unit;

	for (; at < end && cks_memory_find(s->memory, at, &unit); at += unit.size) {
		unit_end(unit.address, unit.size, unit.physical);
		cks_memory_unmap(s->memory, unit.address, unit.size);
	}
}

/* Unmapping memory that running work uses would break the context: @wait first, unless it has
 * failed. The lock is not held meanwhile: others need it at once. */
static CUresult end_lease(struct cks_session *s, CUdeviceptr at, size_t size, bool wait)
{
	struct cks_request q = {.session = s};
	CUresult err = CUDA_ERROR_INVALID_VALUE;

	if (wait)
		wait_for_contexts(s);
	ck_lock(&s->leases->lock);
	if (is_leased(s->memory, at, size)) {
		cks_lease_drop(s, at, size);
		cks_share_check(&q);
		err = CUDA_SUCCESS;
	}
	ck_unlock(&s->leases->lock);
	return err;
}

/* --- returns by the client's own threads, while the session leaves the GPU or is away */

/* *@away: the session is parked, and the end is noted. */
static CUresult note_late_end(struct cks_session *s, CUdeviceptr at, size_t size, bool *away)
{
	struct cks_late_end *late = malloc(sizeof(*late));
	struct cks_late_end **last = &s->leases->late;

	if (!late) {
		*away = true;
		return CUDA_ERROR_OUT_OF_MEMORY; /* it stays leased */
	}
	*late = (struct cks_late_end){at, size, NULL};
	ck_lock(&s->leases->lock);
	*away = cks_gate_is_parked(&s->gate);
	while (*last)
		last = &(*last)->next;
	if (*away)
		*last = late;
	ck_unlock(&s->leases->lock);
	if (!*away)
		free(late);
	return CUDA_SUCCESS;
}

void cks_lease_open_gate(struct cks_session *s)
{
	struct cks_leases *l = s->leases;
	struct cks_request q = {.session = s};
	struct cks_late_end *late;
	bool any;

	/* a thread that waits for memory asks again: the session may have left the GPU meanwhile */
	if (l->room == CK_ROOM_COMING)
		l->room = CK_ROOM_MADE;
	ck_lock(&l->lock);
	any = l->late != NULL;
	ck_unlock(&l->lock);
	if (any)
		wait_for_contexts(s);
	ck_lock(&l->lock);
	while ((late = l->late) != NULL) {
		if (is_leased(s->memory, late->at, late->size))
			cks_lease_drop(s, late->at, late->size);
		l->late = late->next;
		free(late);
	}
	cks_share_check(&q);
	cks_gate_open(&s->gate);
	ck_unlock(&l->lock);
}

/* The client returns memory for another session's sake, also when it is late: that is no reason to
 * return to the GPU. */
static CUresult return_lease(struct cks_session *s, CUdeviceptr at, size_t size, bool wait)
{
	struct cks_pass pass = {.turns = 0};
	CUresult err = CUDA_SUCCESS;
	bool inside, away = false;

	if (!is_supported())
		return CUDA_ERROR_NOT_SUPPORTED;
	cks_gate_join(&s->gate, &pass);
	cks_gate_uncount(&pass);
	while (!(inside = cks_gate_try_held(&s->gate, &pass)) && !away)
		err = note_late_end(s, at, size, &away);
	if (inside) {
		err = end_lease(s, at, size, wait);
		cks_gate_leave_uncounted(&pass);
	}
	cks_gate_part(&s->gate, &pass);
	return err;
}

CUresult ck_serve_lease_end(struct cks_request *q, ck_lease_end_args *a, void *res)
{
	(void)res;
	return return_lease(q->session, a->at, a->size, true);
}

/* The work that used the memory is over. Other work may wait for what the program submits next, so
 * this does not wait for all. */
CUresult ck_serve_lease_drop(struct cks_request *q, ck_lease_drop_args *a, void *res)
{
	(void)res;
	return return_lease(q->session, a->at, a->size, false);
}
