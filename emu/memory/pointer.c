/*
 * emu/memory/pointer.c - queries about an address.
 */
#include <string.h>

#include "emu/memory/arena.h"
#include "emu/core/emu.h"
#include "emu/memory/pool.h"

#define ACCESS_READ_WRITE 3 /* CU_POINTER_ATTRIBUTE_ACCESS_FLAGS */
#define NO_DEVICE (-2)	    /* the ordinal of an address that no device knows */

static bool has_host(const struct ck_emu_memory *memory)
{
	return ck_emu_memory_in_host(memory) || memory->kind == CK_EMU_MEMORY_MANAGED;
}

/* The attributes whose value is a word of 8 bytes; false for another one. */
static bool get_attribute64(const struct ck_emu_memory *memory, CUpointer_attribute attribute,
			    CUdeviceptr ptr, uint64_t *value)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		/* a managed variable is of no context */
		*value = memory && !(memory->kind == CK_EMU_MEMORY_MANAGED && memory->owner)
				 ? (uint64_t)memory->context
				 : 0;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*value = memory ? ptr : 0;
		return true;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*value = memory && has_host(memory) ? ptr : 0;
		return true;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*value = memory ? memory->id : 0;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*value = memory ? memory->lo : 0;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*value = memory ? memory->size : 0;
		return true;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*value = memory && memory->kind == CK_EMU_MEMORY_POOL
				 ? (uint64_t)ck_emu_pool_handle(memory)
				 : 0;
		return true;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*value = 0;
		return true;
	default:
		return false;
	}
}

/* Those of 4 bytes. */
static bool get_attribute32(const struct ck_emu_memory *memory, CUpointer_attribute attribute,
			    uint32_t *value)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*value = !memory			 ? 0
			 : ck_emu_memory_in_host(memory) ? CU_MEMORYTYPE_HOST
							 : CU_MEMORYTYPE_DEVICE;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*value = (uint32_t)(memory ? memory->device : NO_DEVICE);
		return true;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*value = memory ? ACCESS_READ_WRITE : 0;
		return true;
	/* booleans: callers read a whole word */
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*value = memory != NULL;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*value = memory && memory->kind == CK_EMU_MEMORY_MANAGED;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*value = memory && memory->kind == CK_EMU_MEMORY_DEVICE;
		return true;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*value = memory && memory->memops ? memory->memops - 1
						  : memory && !ck_emu_memory_in_host(memory);
		return true;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*value = 0;
		return true;
	default:
		return false;
	}
}

/* Write one attribute at @data, in its own size. */
static CUresult write_attribute(void *data, CUpointer_attribute attribute,
				const struct ck_emu_memory *memory, CUdeviceptr ptr)
{
	uint64_t word;
	uint32_t half;

	if (get_attribute64(memory, attribute, ptr, &word))
		memcpy(data, &word, sizeof(word));
	else if (get_attribute32(memory, attribute, &half))
		memcpy(data, &half, sizeof(half));
	else
		return attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS ? CUDA_ERROR_NOT_SUPPORTED
								    : CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_memory memory;

	if (result != CUDA_SUCCESS)
		return result;
	if (!data || !ck_emu_arena_find(ptr, &memory))
		return CUDA_ERROR_INVALID_VALUE;
	/* registered memory without a host address of its own does not exist here */
	if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && !has_host(&memory))
		return CUDA_ERROR_INVALID_VALUE;
	return write_attribute(data, attribute, &memory, ptr);
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
				void **data, CUdeviceptr ptr)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_memory memory;
	bool known;

	if (result != CUDA_SUCCESS)
		return result;
	if (!numAttributes || !attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	/* an unknown address is no error here: each value shows it */
	known = ck_emu_arena_find(ptr, &memory);
	for (unsigned int i = 0; result == CUDA_SUCCESS && i < numAttributes; i++) {
		if (!data[i])
			return CUDA_ERROR_INVALID_VALUE;
		result = write_attribute(data[i], attributes[i], known ? &memory : NULL, ptr);
	}
	return result;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	CUresult result = ck_emu_enter_bare();
	unsigned int on;

	if (result != CUDA_SUCCESS)
		return result;
	/* SYNC_MEMOPS is the only one that can be set; copies here are ordered as it asks */
	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&on, value, sizeof(on));
	return ck_emu_arena_set_memops(ptr, on != 0) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
