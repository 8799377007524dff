/* tests/random_calls/buffers.c - memory of all kinds: made, filled, looked at, freed. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/random_calls/world.h"

#define UNIT ((size_t)2 << 20) /* of mapped memory */

bool on_device(const struct buffer *b)
{
	return b->device != 0;
}

bool on_host(const struct buffer *b)
{
	return b->host != NULL;
}

bool any(const struct buffer *b)
{
	return b->size > 0;
}

struct buffer *some_buffer(struct world *w, bool (*fits)(const struct buffer *))
{
	struct buffer *found;

	do
		found = &w->buffer[below(w, BUFFERS)];
	while (!any(found) || !fits(found));
	return found;
}

static CUresult map_at(struct world *w, struct buffer *b, CUdeviceptr *address)
{
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, w->device},
				  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUresult err = CALL(w, cuMemAddressReserve, address, b->size, 0, 0, 0);

	if (err == CUDA_SUCCESS)
		err = CALL(w, cuMemMap, *address, b->size, 0, b->memory, 0);
	return err ? err : CALL(w, cuMemSetAccess, *address, b->size, &access, 1);
}

static CUresult make_mapped(struct world *w, struct buffer *b)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, w->device}};
	CUresult err;

	b->size = UNIT * (1 + below(w, 2));
	err = CALL(w, cuMemCreate, &b->memory, b->size, &prop, 0);
	if (err == CUDA_SUCCESS)
		err = map_at(w, b, &b->range);
	b->device = b->range;
	if (err == CUDA_SUCCESS && one_in(w, 2))
		err = map_at(w, b, &b->alias);
	if (err == CUDA_SUCCESS && one_in(w, 2)) /* the mappings keep it */
		err = CALL(w, cuMemRelease, b->memory), b->memory = 0;
	return err;
}

static void free_mapped(struct world *w, struct buffer *b)
{
	CALL(w, cuMemUnmap, b->range, b->size);
	CALL(w, cuMemAddressFree, b->range, b->size);
	if (b->alias != 0) {
		CALL(w, cuMemUnmap, b->alias, b->size);
		CALL(w, cuMemAddressFree, b->alias, b->size);
	}
	if (b->memory != 0)
		CALL(w, cuMemRelease, b->memory);
}

static CUresult make_pooled(struct world *w, struct buffer *b)
{
	unsigned s = some_stream(w);

	use_as_memory(w, s, b);
	if (one_in(w, 2))
		return CALL(w, cuMemAllocAsync, &b->device, b->size, w->stream[s]);
	return CALL(w, cuMemAllocFromPoolAsync, &b->device, b->size, w->pool, w->stream[s]);
}

static CUresult make_host(struct world *w, struct buffer *b)
{
	static const unsigned flags[] = {0, CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP,
					 CU_MEMHOSTALLOC_WRITECOMBINED};
	CUresult err;

	if (b->kind == PINNED) {
		err = CALL(w, cuMemHostAlloc, (void **)&b->host, b->size, flags[below(w, 4)]);
		return err ? err : CALL(w, cuMemHostGetDevicePointer_v2, &b->device, b->host, 0);
	}
	b->allocated = malloc(b->size + 4096);
	b->host = (unsigned char *)b->allocated + below(w, 4096);
	return b->kind == REGISTERED ? CALL(w, cuMemHostRegister_v2, b->host, b->size, 0)
				     : CUDA_SUCCESS;
}

static CUresult make_variable(struct world *w, struct buffer *b)
{
	if (w->table != NULL)
		return CUDA_ERROR_NOT_FOUND;
	w->table = b;
	return CALL(w, cuModuleGetGlobal_v2, &b->device, &b->size, w->module, "table");
}

static CUresult make_memory(struct world *w, struct buffer *b)
{
	CUresult err;
	size_t pitch;

	switch (b->kind) {
	case DEVICE:
		return CALL(w, cuMemAlloc_v2, &b->device, b->size);
	case PITCHED:
		err = CALL(w, cuMemAllocPitch_v2, &b->device, &pitch, 1 + b->size / 16, 16, 4);
		b->size = pitch * 16;
		return err;
	case POOLED:
		return make_pooled(w, b);
	case MAPPED:
		return make_mapped(w, b);
	case MANAGED:
		err = CALL(w, cuMemAllocManaged, &b->device, b->size,
			   one_in(w, 4) ? CU_MEM_ATTACH_HOST : CU_MEM_ATTACH_GLOBAL);
		b->host = (unsigned char *)b->device;
		return err;
	case VARIABLE:
		return make_variable(w, b);
	default:
		return make_host(w, b);
	}
}

static void fill_first(struct world *w, struct buffer *b)
{
	unsigned s = some_stream(w);
	unsigned char *bytes;

	if (on_host(b) && (!on_device(b) || one_in(w, 2))) {
		use_one(w, HOST, b, true);
		scribble(w, b->host, b->size);
	} else if (one_in(w, 2)) {
		use_one(w, s, b, true);
		CALL(w, cuMemsetD8Async, b->device, (unsigned char)draw(w), b->size, w->stream[s]);
	} else {
		bytes = malloc(b->size);
		scribble(w, bytes, b->size);
		use_one(w, LEGACY, b, true);
		CALL(w, cuMemcpyHtoD_v2, b->device, bytes, b->size);
		free(bytes);
	}
}

bool make_buffer(struct world *w, struct buffer *b)
{
	CUresult err;

	*b = (struct buffer){.kind = (enum kind)below(w, KINDS)};
	memset(&w->order->of[b - w->buffer], 0, sizeof(w->order->of[0]));
	b->size = 64 + some_size(w, (size_t)3 << 20);
	err = make_memory(w, b);
	say(w, "buffer %d is of kind %d, %zu bytes: %d\n", (int)(b - w->buffer), b->kind, b->size,
	    err);
	if (err != CUDA_SUCCESS) {
		*b = (struct buffer){0};
		return false;
	}
	fill_first(w, b);
	return true;
}

void free_buffer(struct world *w, struct buffer *b)
{
	unsigned s = some_stream(w);

	if (b->kind == POOLED && !one_in(w, 4)) {
		use_as_memory(w, s, b);
		CALL(w, cuMemFreeAsync, b->device, w->stream[s]);
		b->size = 0;
		return;
	}
	if ((b->kind != DEVICE && b->kind != PITCHED) || one_in(w, 2)) /* cuMemFree waits */
		use_one(w, HOST, b, true);
	if (b->kind == MAPPED)
		free_mapped(w, b);
	else if (b->kind == PINNED)
		CALL(w, cuMemFreeHost, b->host);
	else if (b->kind == REGISTERED)
		CALL(w, cuMemHostUnregister, b->host);
	else if (b->kind != PAGEABLE && b->kind != VARIABLE)
		CALL(w, cuMemFree_v2, b->device);
	if (b->kind == VARIABLE)
		w->table = NULL;
	free(b->allocated);
	b->size = 0;
}

/* Frees a buffer that no graph names, and makes another one. */
void renew_buffer(struct world *w)
{
	struct buffer *b = &w->buffer[below(w, BUFFERS)];

	if (any(b) && b->graphs == 0) {
		say(w, "free %d\n", (int)(b - w->buffer));
		free_buffer(w, b);
	}
	if (!any(b))
		while (!make_buffer(w, b))
			;
}

static void fetch(struct world *w, struct buffer *b, void *bytes, size_t offset, size_t size)
{
	unsigned s = one_in(w, 2) ? LEGACY : some_stream(w);

	use_one(w, s, b, false);
	if (s == LEGACY)
		CALL(w, cuMemcpyDtoH_v2, bytes, b->device + offset, size);
	else
		CALL(w, cuMemcpyDtoHAsync_v2, bytes, b->device + offset, size, w->stream[s]);
	waited(w, s); /* the memory is pageable */
}

void observe(struct world *w, struct buffer *b)
{
	size_t offset = one_in(w, 2) ? 0 : below(w, (unsigned)b->size), size = b->size - offset;
	unsigned char *bytes;

	if (one_in(w, 2))
		size = 1 + below(w, (unsigned)size);
	if (on_host(b) && (!on_device(b) || one_in(w, 2))) {
		use_one(w, HOST, b, false);
		say(w, "host %d: %016llx\n", (int)(b - w->buffer),
		    (unsigned long long)digest(b->host + offset, size));
		return;
	}
	bytes = malloc(size);
	fetch(w, b, bytes, offset, size);
	say(w, "device %d: %016llx\n", (int)(b - w->buffer),
	    (unsigned long long)digest(bytes, size));
	free(bytes);
}

void observe_one(struct world *w)
{
	observe(w, some_buffer(w, any));
}

void host_write(struct world *w)
{
	struct buffer *b = some_buffer(w, on_host);
	size_t offset = below(w, (unsigned)b->size),
	       size = 1 + below(w, (unsigned)(b->size - offset));

	use_one(w, HOST, b, true);
	scribble(w, b->host + offset, one_in(w, 2) && size > 100 ? 100 : size);
}

/* What the driver says of an address within a buffer. */
void ask_pointer(struct world *w)
{
	struct buffer *b = some_buffer(w, on_device);
	CUdeviceptr address = b->device + below(w, (unsigned)b->size), start = 0, base = 0;
	unsigned type = 0, managed = 0;
	size_t size = 0, range = 0;
	CUresult err[5] = {
		CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
		CU(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address),
		CU(cuPointerGetAttribute)(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address),
		CU(cuPointerGetAttribute)(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address),
		CU(cuMemGetAddressRange_v2)(&base, &range, address),
	};

	say(w, "pointer of %d: %u %u %lld %zu, %lld %zu; %d %d %d %d %d\n", b->kind, type, managed,
	    (long long)(start - b->device), size, (long long)(base - b->device), range, err[0],
	    err[1], err[2], err[3], err[4]);
}
