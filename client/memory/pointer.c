/*
 * client/memory/pointer.c - pointer attributes: of device, pinned and unknown addresses.
 *
 * Sizes of answers, and answers for unknown addresses, match driver 580 on an H200. Answers differ
 * where the GPU lacks an ability over the network: registered memory has no device address, and
 * memory cannot be shared with other processes or network cards.
 */
#include <string.h>

#include "client/link/client.h"
#include "client/memory/pools/host_pool.h"
#include "client/memory/pools/pool.h"
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
	/* INVALID_VALUE: not an attribute; NOT_SUPPORTED: one that never applies here */
	CUresult err;
};

static struct answer answer_word(uint64_t value)
{
	return (struct answer){.value = value, .size = 8};
}

static struct answer answer_number(uint32_t value)
{
	return (struct answer){.value = value, .size = 4};
}

/* An address that is available only if @there. */
static struct answer answer_address(uint64_t value, bool there)
{
	return (struct answer){.value = there ? value : 0, .size = 8, .none = !there};
}

static struct answer answer_mapping(const struct ckc_allocation *a, bool base)
{
	uint64_t unit = ckc_kind_on_device(a->kind) ? MAPPING : 4096;
	uint64_t first = a->base & ~(unit - 1);

	return answer_word(base ? first : CK_ALIGN_UP(a->base + a->size, unit) - first);
}

/* The handle of the pool that @p was allocated from; outside of the arena, the server's driver
 * knows it. */
static uint64_t pool_of(uint64_t p, const struct ckc_allocation *a)
{
	uint64_t ctx, id = 0;

	if (!a->pooled)
		return 0;
	if (a->arena || ckc_host_pool_owns(a))
		return ckc_pool_handle(a);
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

static bool is_managed(const struct ckc_allocation *a)
{
	return a->kind == CK_MEMORY_MANAGED && !a->mapped;
}

static bool is_of_no_context(const struct ckc_allocation *a)
{
	return a->pooled || (is_managed(a) && a->variable);
}

/* Can kernels use the memory at @p? */
static bool is_reached(uint64_t p, const struct ckc_allocation *a)
{
	return ckc_kind_on_device(a->kind) || a->shared ||
	       (a->kind == CK_MEMORY_HOST_ALLOC && ckc_window_holds(p));
}

/* The permitted uses of the memory. */
static struct answer answer_ability(CUpointer_attribute attribute, uint64_t p,
				    const struct ckc_allocation *a)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MAPPED:
		return answer_number(1);
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		return answer_number(a->memops ? a->memops - 1 : ckc_kind_on_device(a->kind));
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return answer_number(is_reached(p, a) && !(a->mapped && !a->access) ? READ_WRITE
										    : 0);
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		return answer_number(0);
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return answer_number(is_plain(a) && ckc_gpu_attribute(a->device, DECOMPRESS_MASK));
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		return answer_word(a->handle_types);
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return (struct answer){.err = CUDA_ERROR_NOT_SUPPORTED};
	default:
		return (struct answer){.err = CUDA_ERROR_INVALID_VALUE};
	}
}

/* The kind of memory, and its place; or its permitted uses. */
static struct answer answer_known(CUpointer_attribute attribute, uint64_t p,
				  const struct ckc_allocation *a)
{
	bool device = ckc_kind_on_device(a->kind) && !ckc_allocation_in_host(a);

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		return answer_word(is_of_no_context(a) ? 0 : (uintptr_t)a->context);
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		return answer_number(device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		return answer_address(p, is_reached(p, a));
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return answer_address(p, !device || is_managed(a));
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return answer_word(a->buffer_id);
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return answer_number((uint32_t)a->device);
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		return answer_word(a->base);
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		return answer_word(a->size);
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		return answer_mapping(a, attribute == CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR);
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		return answer_number(is_managed(a));
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		return answer_word(pool_of(p, a));
	default:
		return answer_ability(attribute, p, a);
	}
}

/* The answer for an address of no known memory; size 0: leave the output alone. */
static struct answer answer_unknown(CUpointer_attribute attribute, uint64_t p)
{
	static const struct ckc_allocation nothing = {.kind = CK_MEMORY_HOST_ALLOC};
	struct answer out = answer_known(attribute, p, &nothing); /* to get the size */

	out.value = 0;
	if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER)
		out.value = p;
	else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
		out.value = (uint64_t)NO_DEVICE;
	else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
		 attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
		out.size = 0;
	return out;
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
	answer = answer_known(attribute, ptr, &a);
	if (answer.err)
		return answer.err;
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
		struct answer answer = found ? answer_known(attributes[i], ptr, &a)
					     : answer_unknown(attributes[i], ptr);

		if (answer.err || !data[i])
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
	unsigned int on;

	if (err)
		return err;
	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&on, value, sizeof(on));
	return ckc_allocation_memops(ptr, on != 0) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
