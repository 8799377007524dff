/*
 * whole_chunked_memory.cuh - PtrGen: pointers into plain and into chunked memory, so that a kernel
 * is written once for both.
 *
 *     PtrGen<int, int> plain(pointer);
 *     PtrGen<const whole_memory::WholeChunkedMemoryHandle, int> chunked(handle);
 *     int *p = chunked.At(offset);
 *
 * At() of chunked memory divides, so call it once a row and walk from there. That is right where
 * no row lies in two chunks: where the granularity of the memory is a multiple of the row's size.
 * For kernels, and for the CPU with the handle of WCM_HOST; takes NVRTC too.
 */
#ifndef WHOLE_CHUNKED_MEMORY_CUH
#define WHOLE_CHUNKED_MEMORY_CUH

#include "wcm_handle.h"

#ifdef __CUDACC__
#define WCM_BOTH __host__ __device__ __forceinline__
#else
#define WCM_BOTH inline
#endif

/* Plain memory: @HandleType is the type pointed to, or void. */
template <typename HandleType, typename DataType = HandleType> class PtrGen
{
      public:
	WCM_BOTH explicit PtrGen(HandleType *base, size_t base_elt_offset = 0)
	    : base_((DataType *)base + base_elt_offset)
	{
	}
	/* The address of element number @elt_offset. */
	WCM_BOTH DataType *At(size_t elt_offset) const
	{
		return base_ + elt_offset;
	}

      private:
	DataType *base_;
};

/* Chunked memory. With WCM_DEBUG what is outside of it stops the kernel. */
template <typename DataType> class PtrGen<const WholeChunkedMemoryHandle, DataType>
{
      public:
	WCM_BOTH explicit PtrGen(const WholeChunkedMemoryHandle *handle, size_t base_elt_offset = 0)
	    : handle_(handle), base_(base_elt_offset), size_(handle->chunk_size),
	      shift_(handle->chunk_shift)
	{
	}
	WCM_BOTH DataType *At(size_t elt_offset) const
	{
		size_t byte = (elt_offset + base_) * sizeof(DataType);
		/* a division of 64 bits is a hundred instructions; most sizes need none */
		size_t chunk = shift_ ? byte >> shift_ : byte / size_;

#if defined(WCM_DEBUG) && defined(__CUDA_ARCH__)
		if (chunk >= (size_t)handle_->chunk_count)
			__trap();
#endif
		return (DataType *)((char *)handle_->chunked_ptrs[chunk] + (byte - chunk * size_));
	}

      private:
	const WholeChunkedMemoryHandle *handle_;
	size_t base_, size_;
	int shift_;
};

template <typename DataType>
class PtrGen<WholeChunkedMemoryHandle, DataType>
    : public PtrGen<const WholeChunkedMemoryHandle, DataType>
{
      public:
	WCM_BOTH explicit PtrGen(const WholeChunkedMemoryHandle *handle, size_t base_elt_offset = 0)
	    : PtrGen<const WholeChunkedMemoryHandle, DataType>(handle, base_elt_offset)
	{
	}
};

namespace whole_memory
{
using ::PtrGen;
using ::WholeChunkedMemoryHandle;
} // namespace whole_memory

#endif
