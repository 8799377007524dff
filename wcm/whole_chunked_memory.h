/*
 * whole_chunked_memory.h - WholeMemory's names for chunked memory, over wcm.h. Header only; link
 * with libwcm. C++; whole_chunked_memory.cuh has PtrGen for kernels.
 *
 * They are those of WholeMemory's first release, where ranks are numbers and the group is that of
 * WmmpInit, and of its last with such names, where memory belongs to a communicator. The
 * differences: nothing aborts, and functions that returned nothing return a wcm_status; ranks are
 * counted and held to 16; WcmmpFree waits for nobody; copies take host memory too, and any size.
 */
#ifndef WHOLE_CHUNKED_MEMORY_H
#define WHOLE_CHUNKED_MEMORY_H

#include <cstddef>
#include <cstring>

#include "wcm.h"

struct CUstream_st; /* cudaStream_t and CUstream point to it */

namespace whole_memory
{

using ::WholeChunkedMemory_t;
using ::WholeChunkedMemoryHandle;
typedef ::wcm_group BootstrapCommunicator;

/* Ranks talk by a socket of their own: there is no other way to give. */
class CollectiveCommunicator;

struct WmmpUniqueId {
	char internal[128];
};

/* --- coming and going. The device is the current one, as it was. */

inline int WholeMemoryInit()
{
	return WCM_OK;
}

inline int WmmpInit(int group_rank, int group_size, CollectiveCommunicator *communicator = nullptr)
{
	wcm_group *group;

	if (communicator)
		return WCM_ENOTSUP;
	return wcm_init(nullptr, group_rank, group_size, &group);
}

inline int WmmpFinalize()
{
	wcm_group *group = wcm_current();

	wcm_set_current(nullptr);
	return wcm_finalize(group);
}

inline int WholeMemoryFinalize()
{
	return WmmpFinalize();
}

inline int WmmpGetRank()
{
	return wcm_rank(wcm_current());
}

inline int WmmpGetSize()
{
	return wcm_size(wcm_current());
}

inline int WmmpGetUniqueId(WmmpUniqueId *id)
{
	return id ? wcm_unique_name(id->internal, sizeof(id->internal)) : (int)WCM_EINVAL;
}

/* NULL where it does not come about. */
inline BootstrapCommunicator *WmmpCreateCommunicator(int size, WmmpUniqueId id, int rank)
{
	wcm_opts opts = wcm_opts();
	wcm_group *group = nullptr;

	id.internal[sizeof(id.internal) - 1] = '\0';
	opts.group = id.internal;
	opts.device = WCM_ANY_DEVICE;
	return wcm_init(&opts, rank, size, &group) == WCM_OK ? group : nullptr;
}

inline int WmmpDestroyCommunicator(BootstrapCommunicator *communicator)
{
	return wcm_finalize(communicator);
}

/* --- collective calls */

inline int WmmpBarrier(BootstrapCommunicator *communicator = wcm_current())
{
	return wcm_barrier(communicator);
}

inline int WmmpAllToAll(const void *send_buf, int send_size, void *recv_buf, int recv_size)
{
	if (send_size < 0 || send_size != recv_size)
		return WCM_EINVAL;
	return wcm_all_to_all(wcm_current(), send_buf, (size_t)send_size, recv_buf);
}

/* The sum over the ranks; and of the ranks before this one. */
inline size_t WmmpAggregateSize(size_t local_size, size_t *offset = nullptr)
{
	uint64_t sum = 0, before = 0;

	if (wcm_aggregate(wcm_current(), local_size, &sum, &before) == WCM_OK && offset)
		*offset = (size_t)before;
	return (size_t)sum;
}

inline size_t WmmpCollOffsetAndSize(size_t total, size_t *offset)
{
	int rank = wcm_rank(wcm_current()), size = wcm_size(wcm_current());
	size_t share, from, to;

	if (rank < 0 || size < 1)
		return 0;
	share = total / (size_t)size + (total % (size_t)size != 0);
	from = share * (size_t)rank < total ? share * (size_t)rank : total;
	to = total - from < share ? total : from + share;
	if (offset)
		*offset = from;
	return to - from;
}

/* --- memory */

inline int WcmmpMalloc(WholeChunkedMemory_t *wcmt, size_t size, size_t min_granularity = 0,
		       const int *ranks = nullptr, int rank_count = 0)
{
	return wcm_malloc(wcm_current(), size, min_granularity, ranks, rank_count, wcmt);
}

/* The later one: the granularity is used as it is. */
inline int WcmmpMalloc(WholeChunkedMemory_t *wcmt, size_t size, BootstrapCommunicator *communicator,
		       size_t min_granularity)
{
	return wcm_malloc_exact(communicator, size, min_granularity, nullptr, 0, wcmt);
}

inline int WcmmpFree(WholeChunkedMemory_t wcmt)
{
	return wcm_free(wcmt);
}

/* Device -1 is the CPU. NULL for an invalid one. */
inline WholeChunkedMemoryHandle *GetDeviceChunkedHandle(WholeChunkedMemory_t wcmt, int dev_id)
{
	WholeChunkedMemoryHandle *handle = nullptr;

	return wcm_device_handle(wcmt, dev_id, &handle) == WCM_OK ? handle : nullptr;
}

inline int WcmmpGetLocalMemory(WholeChunkedMemory_t wcmt, void **local_ptr, size_t *local_size)
{
	return wcm_local(wcmt, local_ptr, local_size);
}

inline BootstrapCommunicator *WcmmpGetBootstrapCommunicator(WholeChunkedMemory_t wcmt)
{
	return wcm_group_of(wcmt);
}

/* Of a handle that GetDeviceChunkedHandle has given, of this device or the CPU. */
inline int WcmmpMemcpyToWholeChunkedMemory(WholeChunkedMemoryHandle *handle,
					   size_t chunked_mem_offset, const void *src,
					   size_t copy_len, CUstream_st *stream)
{
	return wcm_copy_to(wcm_from_handle(handle), chunked_mem_offset, src, copy_len, stream);
}

inline int WcmmpMemcpyFromWholeChunkedMemory(void *dst, WholeChunkedMemoryHandle *handle,
					     size_t chunked_mem_offset, size_t copy_len,
					     CUstream_st *stream)
{
	return wcm_copy_from(dst, wcm_from_handle(handle), chunked_mem_offset, copy_len, stream);
}

} // namespace whole_memory

namespace whole_graph
{
using namespace whole_memory;
}

#endif
