/*
 * server/policy/meter_calls.c - the driver's functions that allocate, free and measure device
 * memory, counted.
 */
#include <stdlib.h>

#include "cuda/array_format.h"
#include "server/policy/meter.h"
#include "server/policy/meter_part.h"
#include "server/session/driver.h"
#include "server/session/locks.h"
#include "util/range.h"
#include "util/util.h"

#define real cks_meter_driver

/* Memory by its address, and arrays by their handles. */
struct piece {
	CUdevice device;
	size_t size;
};

static struct {
	struct ck_mutex lock;
	struct ck_ranges *pieces;
} noted = {.lock = CK_MUTEX(CK_RANK_METER_PIECES)};

static CUdevice current_device(void)
{
	CUdevice device;

	return real.cuCtxGetDevice && real.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : -1;
}

/* Take the piece noted under @key; NULL: there is none. */
static struct piece *take_piece(uint64_t key)
{
	void *value = NULL;

	ck_lock(&noted.lock);
	if (noted.pieces)
		ck_ranges_remove(noted.pieces, key, &value);
	ck_unlock(&noted.lock);
	return value;
}

static void refund_piece(struct piece *piece)
{
	if (piece)
		cks_meter_refund(piece->device, piece->size);
	free(piece);
}

/* Note @piece, which is taken unless that fails. */
static bool insert_piece(uint64_t key, struct piece *piece)
{
	int ret = -1;

	ck_lock(&noted.lock);
	if (!noted.pieces)
		noted.pieces = ck_ranges_create();
	if (noted.pieces)
		ret = ck_ranges_insert(noted.pieces, key, key + 1, piece);
	ck_unlock(&noted.lock);
	return ret == 0;
}

/* Memory is taken off the notes before the driver frees it: another thread may get its address at
 * once. @err: how that went. */
static CUresult finish_free(CUresult err, uint64_t key, struct piece *piece)
{
	if (!err || !piece || !insert_piece(key, piece))
		refund_piece(piece);
	return err;
}

/* Note a piece that is charged already. An older piece at @key has ended without notice. False: out
 * of memory. */
static bool record_piece(uint64_t key, CUdevice device, size_t size)
{
	struct piece *piece = malloc(sizeof(*piece));

	refund_piece(take_piece(key));
	if (!piece)
		return false;
	*piece = (struct piece){device, size};
	if (insert_piece(key, piece))
		return true;
	free(piece);
	return false;
}

void cks_meter_lost(CUdeviceptr address)
{
	refund_piece(take_piece(address));
}

/* @err: how the allocation of @size charged bytes went. */
static CUresult finish_alloc(CUresult err, CUdevice device, CUdeviceptr address, size_t size)
{
	if (!err && record_piece(address, device, size))
		return CUDA_SUCCESS;
	cks_meter_refund(device, size);
	if (err)
		return err;
	real.cuMemFree_v2(address);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult alloc_memory(CUdeviceptr *out, size_t size)
{
	CUdevice device = current_device();
	CUresult err;

	if (!cks_meter_charge(device, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = real.cuMemAlloc_v2(out, size);
	return finish_alloc(err, device, *out, size);
}

/* Only the driver knows the size in advance. */
static CUresult alloc_pitch(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
			    unsigned int element)
{
	CUdevice device = current_device();
	CUresult err = real.cuMemAllocPitch_v2(out, pitch, width, height, element);

	if (err)
		return err;
	if (!cks_meter_charge(device, *pitch * height)) {
		real.cuMemFree_v2(*out);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return finish_alloc(CUDA_SUCCESS, device, *out, *pitch * height);
}

static CUresult alloc_async(CUdeviceptr *out, size_t size, CUstream stream)
{
	CUdevice device = current_device();
	CUresult err;

	if (cks_capture_graph(stream)) /* a node: its launches allocate */
		return real.cuMemAllocAsync(out, size, stream);
	if (!cks_meter_charge(device, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = real.cuMemAllocAsync(out, size, stream);
	return finish_alloc(err, device, *out, size);
}

static CUresult alloc_from_pool(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream)
{
	CUdevice device = current_device();
	CUresult err;

	if (cks_capture_graph(stream))
		return real.cuMemAllocFromPoolAsync(out, size, pool, stream);
	if (!cks_meter_charge(device, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = real.cuMemAllocFromPoolAsync(out, size, pool, stream);
	return finish_alloc(err, device, *out, size);
}

static CUresult free_memory(CUdeviceptr address)
{
	struct piece *piece = take_piece(address);

	return finish_free(real.cuMemFree_v2(address), address, piece);
}

static CUresult free_async(CUdeviceptr address, CUstream stream)
{
	struct piece *piece = take_piece(address);

	return finish_free(real.cuMemFreeAsync(address, stream), address, piece);
}

/* --- arrays: without the driver's padding */

/* Formats that are not known here have no larger channels. */
static size_t element_size(CUarray_format format, unsigned int channels)
{
	unsigned int bytes = ck_channel_bytes(format);

	return (size_t)(bytes ? bytes : 4) * channels;
}

/* The bytes of an array, with its mip levels; a size that is too large for any GPU is the largest
 * number. */
static size_t size_of_array(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels)
{
	size_t size = element_size(desc->Format, desc->NumChannels);

	if (ck_mul_overflow(size, ck_max(desc->Width, (size_t)1), &size) ||
	    ck_mul_overflow(size, ck_max(desc->Height, (size_t)1), &size) ||
	    ck_mul_overflow(size, ck_max(desc->Depth, (size_t)1), &size) || size > SIZE_MAX / 2)
		return SIZE_MAX / 2;
	return levels > 1 ? size / 3 * 4 : size; /* each level is a quarter of the one before it */
}

static CUresult array_create(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	const CUDA_ARRAY3D_DESCRIPTOR full = {.Width = desc->Width,
					      .Height = desc->Height,
					      .Format = desc->Format,
					      .NumChannels = desc->NumChannels};
	CUdevice device = current_device();
	size_t size = size_of_array(&full, 1);
	CUresult err;

	if (!cks_meter_charge(device, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = real.cuArrayCreate_v2(out, desc);
	if (err || !record_piece((uintptr_t)*out, device, size))
		cks_meter_refund(device, size);
	return err;
}

/* A sparse array has no memory of its own. */
static CUresult array_create_3d(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	CUdevice device = current_device();
	size_t size = desc->Flags & CUDA_ARRAY3D_SPARSE ? 0 : size_of_array(desc, 1);
	CUresult err;

	if (!cks_meter_charge(device, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = real.cuArray3DCreate_v2(out, desc);
	if (err || !record_piece((uintptr_t)*out, device, size))
		cks_meter_refund(device, size);
	return err;
}

static CUresult mipmapped_create(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc,
				 unsigned int levels)
{
	CUdevice device = current_device();
	size_t size = desc->Flags & CUDA_ARRAY3D_SPARSE ? 0 : size_of_array(desc, levels);
	CUresult err;

	if (!cks_meter_charge(device, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = real.cuMipmappedArrayCreate(out, desc, levels);
	if (err || !record_piece((uintptr_t)*out, device, size))
		cks_meter_refund(device, size);
	return err;
}

static CUresult array_destroy(CUarray array)
{
	struct piece *piece = take_piece((uintptr_t)array);

	return finish_free(real.cuArrayDestroy(array), (uintptr_t)array, piece);
}

static CUresult mipmapped_destroy(CUmipmappedArray array)
{
	struct piece *piece = take_piece((uintptr_t)array);

	return finish_free(real.cuMipmappedArrayDestroy(array), (uintptr_t)array, piece);
}

/* --- free and total memory: of the quota, if that is less */

static CUresult total_memory(size_t *bytes, CUdevice device)
{
	CUresult err = real.cuDeviceTotalMem_v2(bytes, device);
	uint64_t limit, used;

	if (!err && cks_meter_quota(device, &limit, &used))
		*bytes = ck_min((uint64_t)*bytes, limit);
	return err;
}

static void narrow_to_quota(CUdevice device, size_t *free, size_t *total)
{
	uint64_t limit, used;

	if (!cks_meter_quota(device, &limit, &used))
		return;
	*total = ck_min((uint64_t)*total, limit);
	*free = ck_min((uint64_t)*free, limit > used ? limit - used : 0);
}

/* Sessions that take turns can be parked: their memory counts as free. */
static CUresult memory_info(size_t *free, size_t *total)
{
	CUresult err = real.cuMemGetInfo_v2(free, total);
	CUdevice device = current_device();
	uint64_t own;

	if (err)
		return err;
	if (cks_meter_takes_turns(device, &own))
		*free = ck_max(*free, *total - ck_min((uint64_t)*total, own));
	narrow_to_quota(device, free, total);
	return CUDA_SUCCESS;
}

size_t cks_meter_free(void)
{
	CUresult (*info)(size_t * free, size_t * total) =
		real.cuMemGetInfo_v2 ? real.cuMemGetInfo_v2 : ck_driver.cuMemGetInfo_v2;
	size_t free, total;

	if (!info || info(&free, &total))
		return 0;
	narrow_to_quota(current_device(), &free, &total);
	return free;
}

#define TAKE(name, function) ck_driver.name = real.name ? (function) : NULL

void cks_meter_take_over(void)
{
	TAKE(cuMemAlloc_v2, alloc_memory);
	TAKE(cuMemAllocPitch_v2, alloc_pitch);
	TAKE(cuMemAllocAsync, alloc_async);
	TAKE(cuMemAllocFromPoolAsync, alloc_from_pool);
	TAKE(cuMemFree_v2, free_memory);
	TAKE(cuMemFreeAsync, free_async);
	TAKE(cuArrayCreate_v2, array_create);
	TAKE(cuArray3DCreate_v2, array_create_3d);
	TAKE(cuMipmappedArrayCreate, mipmapped_create);
	TAKE(cuArrayDestroy, array_destroy);
	TAKE(cuMipmappedArrayDestroy, mipmapped_destroy);
	TAKE(cuDeviceTotalMem_v2, total_memory);
	TAKE(cuMemGetInfo_v2, memory_info);
	cks_meter_take_over_physical();
	cks_meter_take_over_limits();
}
