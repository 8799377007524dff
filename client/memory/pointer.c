/*
 * client/memory/pointer.c - pointer attributes: of device, pinned and unknown addresses.
 *
 * Sizes of answers, and answers for unknown addresses, match driver 580 on an H200. Answers differ
 * where the GPU lacks an ability over the network: registered memory has no device address, and
 * memory cannot be shared with other processes or network cards.
 */
#include <string.h>

#include "client/wire/client.h"
#include "client/memory/pool.h"
#include "client/managed/window.h"

#define MAPPING ((uint64_t)2 << 20) /* device memory is mapped in blocks of this size */
#define NO_DEVICE (-2)		    /* ordinal of memory that no driver call made */
#define READ_WRITE 3
#define DECOMPRESS_MASK CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK

/* An answer of 4 or 8 bytes. */
struct answer {
	uint64_t value;
	size_t size;
	bool none; /* not available: an error if queried alone */
};

static void set(struct answer *out, uint64_t value, size_t size)
{
	out->value = value;
	out->size = size;
}

static void mapping(struct answer *out, const struct ckc_allocation *a, bool base)
{
	uint64_t unit = ckc_kind_on_device(a->kind) ? MAPPING : 4096;
	uint64_t first = a->base & ~(unit - 1);

	set(out, base ? first : CK_ALIGN_UP(a->base + a->size, unit) - first, 8);
}

/* The handle of the pool that @p was allocated from; the server's driver knows it. */
static uint64_t pool_of(uint64_t p)
{
	uint64_t ctx, id = 0;

	if (ckc_enter_any(&ctx) || ck_wire_pointer_pool(ctx, p, &id))
		return 0;
	return (uintptr_t)ckc_object_named(CK_OBJECT_POOL, id);
}

/* Memory of cuMemAlloc, for which mapping and pool attributes are trivial. */
static bool is_plain(const struct ckc_allocation *a)
{
	return a->kind == CK_MEMORY_DEVICE && !a->variable && !a->pooled && !a->mapped &&
	       !a->opened && !a->graph;
}

/* INVALID_VALUE: not an attribute; NOT_SUPPORTED: an attribute that never applies here. */
static CUresult known(CUpointer_attribute attribute, uint64_t p, const struct ckc_allocation *a,
		      struct answer *out)
{
	bool device = ckc_kind_on_device(a->kind), managed = a->kind == CK_MEMORY_MANAGED;
	bool reached =
		device || a->shared || (a->kind == CK_MEMORY_HOST_ALLOC && ckc_window_holds(p));

	out->none = false;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		/* a managed variable belongs to no context */
		set(out, managed && a->variable ? 0 : (uintptr_t)a->context, 8);
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		set(out, device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST, 4);
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		set(out, reached ? p : 0, 8);
		out->none = !reached;
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		set(out, device && !managed ? 0 : p, 8);
		out->none = device && !managed;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		set(out, a->buffer_id, 8);
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		set(out, (uint64_t)a->device, 4);
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		set(out, a->base, 8);
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		set(out, a->size, 8);
		break;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		set(out, 1, 4);
		break;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		set(out, device, 4);
		break;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		set(out, reached && !(a->mapped && !a->access) ? READ_WRITE : 0, 4);
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		mapping(out, a, attribute == CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR);
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		set(out, managed, 4);
		break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		set(out, 0, 4);
		break;
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		set(out, is_plain(a) && ckc_gpu_attribute(a->device, DECOMPRESS_MASK), 4);
		break;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		set(out, a->handle_types, 8);
		break;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		set(out,
		    a->pooled && a->arena ? ckc_pool_handle(a)
		    : a->pooled		  ? pool_of(p)
					  : 0,
		    8);
		break;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

/* The answer for an address of no known memory; size 0: leave the output alone. */
static CUresult unknown(CUpointer_attribute attribute, uint64_t p, struct answer *out)
{
	static const struct ckc_allocation nothing = {.kind = CK_MEMORY_HOST_ALLOC};
	CUresult err = known(attribute, p, &nothing, out); /* to get the size */

	if (err)
		return err;
	out->value = 0;
	if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER)
		out->value = p;
	else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
		out->value = (uint64_t)NO_DEVICE;
	else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
		 attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
		out->size = 0;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	CUresult err = ckc_process_check();
	struct ckc_allocation a;
	struct answer answer;

	if (err)
		return err;
	if (!data || !ckc_allocation_find(ptr, &a))
		return CUDA_ERROR_INVALID_VALUE;
	err = known(attribute, ptr, &a, &answer);
	if (err)
		return err;
	memcpy(data, &answer.value, answer.size);
	return answer.none ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Query several attributes; unavailable ones read as zero, without an error. */
CK_EXPORT CUresult cuPointerGetAttributes(unsigned int numAttributes,
					  CUpointer_attribute *attributes, void **data,
					  CUdeviceptr ptr)
{
	CUresult err = ckc_process_check();
	struct ckc_allocation a;
	bool found;

	if (err)
		return err;
	if (numAttributes == 0 || !attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	found = ckc_allocation_find(ptr, &a);
	for (unsigned int i = 0; i < numAttributes; i++) {
		struct answer answer;

		err = found ? known(attributes[i], ptr, &a, &answer)
			    : unknown(attributes[i], ptr, &answer);
		if (err || !data[i])
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(data[i], &answer.value, answer.size);
	}
	return CUDA_SUCCESS;
}

/* Only SYNC_MEMOPS can be set. It concerns access by other devices, which does not happen here. */
CK_EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
					 CUdeviceptr ptr)
{
	CUresult err = ckc_process_check();
	struct ckc_allocation a;

	if (err)
		return err;
	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
	    !ckc_allocation_find(ptr, &a))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}
