/*
 * wcm/copy.c - a rank's calls on memory that it has: handles, addresses, facts, copies.
 */
#include "util/util.h"
#include "wcm/lib.h"

int wcm_device_handle(wcm_t memory, int device, WholeChunkedMemoryHandle **handle)
{
	wcm_t m = handle ? ck_wcm_memory_get(memory) : NULL;
	int status = WCM_OK;

	if (!m)
		return WCM_EINVAL;
	if (device == WCM_HOST)
		*handle = &m->host;
	else if (device == m->group->device)
		*handle = (WholeChunkedMemoryHandle *)(uintptr_t)m->device_handle;
	else
		status = WCM_EINVAL;
	ck_wcm_memory_put(m);
	return status;
}

int wcm_chunk(wcm_t memory, int chunk, void **address, size_t *size)
{
	wcm_t m = ck_wcm_memory_get(memory);
	int status = WCM_EINVAL;

	if (!m)
		return WCM_EINVAL;
	if (chunk >= 0 && chunk < m->info.chunk_count) {
		if (address)
			*address = m->host.chunked_ptrs[chunk];
		if (size)
			*size = m->host.chunk_size;
		status = WCM_OK;
	}
	ck_wcm_memory_put(m);
	return status;
}

int wcm_local(wcm_t memory, void **address, size_t *size)
{
	wcm_t m = ck_wcm_memory_get(memory);
	int status;

	if (!m)
		return WCM_EINVAL;
	status = wcm_chunk(memory, m->info.chunk, address, size);
	ck_wcm_memory_put(m);
	return status;
}

static uint64_t lost_chunks(wcm_t m)
{
	uint64_t lost = 0;
	uint32_t ranks;

	pthread_mutex_lock(&m->group->lock);
	ranks = m->group->lost;
	pthread_mutex_unlock(&m->group->lock);
	for (int i = 0; i < m->info.chunk_count; i++) {
		if (ranks >> m->info.ranks[i] & 1)
			lost |= (uint64_t)1 << i;
	}
	return lost;
}

int wcm_stat(wcm_t memory, wcm_info *info)
{
	wcm_t m = info ? ck_wcm_memory_get(memory) : NULL;
	uint64_t bad = 0;
	int status;

	if (!m)
		return WCM_EINVAL;
	status = ck_wcm_enter(m->group);
	if (status == WCM_OK) {
		status = ck_wcm_status_of(
			m->group->driver->cuMemcpyDtoH_v2(
				&bad, m->device_handle + CK_WCM_BAD_OFFSET, sizeof(bad)),
			"cuMemcpyDtoH");
		ck_wcm_leave(m->group);
	}
	if (status == WCM_OK) {
		*info = m->info;
		info->lost = lost_chunks(m);
		info->bad_indices = bad;
	}
	ck_wcm_memory_put(m);
	return status;
}

/* A piece a chunk: the driver's copies know one address each. */
static int copy_pieces(wcm_t m, size_t offset, uint64_t data, size_t size, bool to, void *stream)
{
	size_t chunk_size = m->host.chunk_size, n;
	int status = WCM_OK;
	CUdeviceptr at;

	for (; size > 0 && status == WCM_OK; offset += n, data += n, size -= n) {
		n = ck_min(size, chunk_size - offset % chunk_size);
		at = m->pieces[offset / chunk_size].address + offset % chunk_size;
		status = ck_wcm_status_of(m->group->driver->cuMemcpyAsync(to ? at : data,
									  to ? data : at, n,
									  (CUstream)stream),
					  "cuMemcpyAsync");
	}
	return status;
}

static int copy_memory(wcm_t memory, size_t offset, const void *data, size_t size, bool to,
		       void *stream)
{
	wcm_t m = ck_wcm_memory_get(memory);
	int status;
	size_t end;

	if (!m)
		return WCM_EINVAL;
	status = ck_add_overflow(offset, size, &end) || end > m->info.total_size || (!data && size)
			 ? WCM_EINVAL
			 : ck_wcm_enter(m->group);
	if (status == WCM_OK) {
		status = copy_pieces(m, offset, (uint64_t)(uintptr_t)data, size, to, stream);
		ck_wcm_leave(m->group);
	}
	ck_wcm_memory_put(m);
	return status;
}

int wcm_copy_to(wcm_t memory, size_t offset, const void *data, size_t size, void *stream)
{
	return copy_memory(memory, offset, data, size, true, stream);
}

int wcm_copy_from(void *data, wcm_t memory, size_t offset, size_t size, void *stream)
{
	return copy_memory(memory, offset, data, size, false, stream);
}
