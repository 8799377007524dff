/*
 * wcm_handle.h - what a kernel needs to know of chunked memory: where each chunk is, and how long
 * they are. Plain C, and no header of the host's C library, so that NVRTC takes it too.
 */
#ifndef WCM_HANDLE_H
#define WCM_HANDLE_H

#ifndef __CUDACC_RTC__
#include <stddef.h>
#endif

#define WCM_RANKS_MAX 16
#define MAX_DEVICE_COUNT WCM_RANKS_MAX /* the name of old */

/*
 * The layout is WholeMemory's, 144 bytes: kernels that were compiled for it read chunked_ptrs,
 * chunk_size and chunk_count where they always were. @chunk_shift lies in what was padding there.
 */
typedef struct WholeChunkedMemoryHandle {
	void *chunked_ptrs[WCM_RANKS_MAX]; /* as the process and device that it is for see them */
	size_t chunk_size;		   /* bytes of each chunk */
	int chunk_count;
	int chunk_shift; /* chunk_size is 1 << chunk_shift; 0: it is no power of two */
} WholeChunkedMemoryHandle;

#ifdef __cplusplus
#define WCM_HOLD(condition) static_assert(condition, "WholeMemory's layout")
#else
#define WCM_HOLD(condition) _Static_assert(condition, "WholeMemory's layout")
#endif
WCM_HOLD(sizeof(WholeChunkedMemoryHandle) == 144);
WCM_HOLD(sizeof(void *) == 8 && sizeof(size_t) == 8);
WCM_HOLD(__builtin_offsetof(WholeChunkedMemoryHandle, chunk_size) == 128);
WCM_HOLD(__builtin_offsetof(WholeChunkedMemoryHandle, chunk_count) == 136);
#undef WCM_HOLD

#endif
