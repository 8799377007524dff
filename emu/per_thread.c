/*
 * emu/per_thread.c - the forms of the calls for programs built with per-thread default streams:
 * a null stream handle is then the calling thread's own stream.
 */
#include "emu/emu.h"

/* The stream that a null handle means here. */
static CUstream own(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}

/* The end of a synchronous call: wait for what it has queued. */
static CUresult finish(CUresult queued)
{
	return queued == CUDA_SUCCESS ? cuStreamSynchronize(CU_STREAM_PER_THREAD) : queued;
}

CUresult cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	return cuEventRecordWithFlags(hEvent, own(hStream), flags);
}

CUresult cuEventRecord_ptsz(CUevent hEvent, CUstream hStream)
{
	return cuEventRecord(hEvent, own(hStream));
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
					unsigned int gridDimZ, unsigned int blockDimX,
					unsigned int blockDimY, unsigned int blockDimZ,
					unsigned int sharedMemBytes, CUstream hStream,
					void **kernelParams)
{
	return cuLaunchCooperativeKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
					 blockDimZ, sharedMemBytes, own(hStream), kernelParams);
}

CUresult cuLaunchHostFunc_ptsz(CUstream hStream, CUhostFn fn, void *userData)
{
	return cuLaunchHostFunc(own(hStream), fn, userData);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
			       void **extra)
{
	CUlaunchConfig own_config;

	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	own_config = *config;
	own_config.hStream = own(config->hStream);
	return cuLaunchKernelEx(&own_config, f, kernelParams, extra);
}

CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
			     unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
			     unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
			     void **kernelParams, void **extra)
{
	return cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
			      sharedMemBytes, own(hStream), kernelParams, extra);
}

CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
	return cuMemcpy2DAsync_v2(pCopy, own(hStream));
}

CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
	return cuMemcpy3DAsync_v2(pCopy, own(hStream));
}

CUresult cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
	return cuMemcpyAsync(dst, src, ByteCount, own(hStream));
}

CUresult cuMemcpyAtoHAsync_v2_ptsz(void *dstHost, CUarray srcArray, size_t srcOffset,
				   size_t ByteCount, CUstream hStream)
{
	return cuMemcpyAtoHAsync_v2(dstHost, srcArray, srcOffset, ByteCount, own(hStream));
}

CUresult cuMemcpyHtoAAsync_v2_ptsz(CUarray dstArray, size_t dstOffset, const void *srcHost,
				   size_t ByteCount, CUstream hStream)
{
	return cuMemcpyHtoAAsync_v2(dstArray, dstOffset, srcHost, ByteCount, own(hStream));
}

CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
				   CUstream hStream)
{
	return cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, own(hStream));
}

CUresult cuMemcpyDtoHAsync_v2_ptsz(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
				   CUstream hStream)
{
	return cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount, own(hStream));
}

CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
				   CUstream hStream)
{
	return cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, own(hStream));
}

CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
				CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
	return cuMemcpyPeerAsync(dstDevice, dstContext, srcDevice, srcContext, ByteCount,
				 own(hStream));
}

CUresult cuMemsetD16Async_ptsz(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)
{
	return cuMemsetD16Async(dstDevice, us, N, own(hStream));
}

CUresult cuMemsetD2D16Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
				 size_t Width, size_t Height, CUstream hStream)
{
	return cuMemsetD2D16Async(dstDevice, dstPitch, us, Width, Height, own(hStream));
}

CUresult cuMemsetD2D32Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
				 size_t Width, size_t Height, CUstream hStream)
{
	return cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width, Height, own(hStream));
}

CUresult cuMemsetD2D8Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
				size_t Width, size_t Height, CUstream hStream)
{
	return cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width, Height, own(hStream));
}

CUresult cuMemsetD32Async_ptsz(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
	return cuMemsetD32Async(dstDevice, ui, N, own(hStream));
}

CUresult cuMemsetD8Async_ptsz(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
	return cuMemsetD8Async(dstDevice, uc, N, own(hStream));
}

CUresult cuStreamAddCallback_ptsz(CUstream hStream, CUstreamCallback callback, void *userData,
				  unsigned int flags)
{
	return cuStreamAddCallback(own(hStream), callback, userData, flags);
}

CUresult cuStreamCopyAttributes_ptsz(CUstream dst, CUstream src)
{
	return cuStreamCopyAttributes(own(dst), own(src));
}

CUresult cuStreamGetAttribute_ptsz(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value)
{
	return cuStreamGetAttribute(own(hStream), attr, value);
}

CUresult cuStreamGetCaptureInfo_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus,
				     cuuint64_t *id)
{
	return cuStreamGetCaptureInfo(own(hStream), captureStatus, id);
}

CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus,
					cuuint64_t *id, CUgraph *graph,
					const CUgraphNode **dependencies, size_t *numDependencies)
{
	return cuStreamGetCaptureInfo_v2(own(hStream), captureStatus, id, graph, dependencies,
					 numDependencies);
}

CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus,
					cuuint64_t *id, CUgraph *graph,
					const CUgraphNode **dependencies, const void **edgeData,
					size_t *numDependencies)
{
	return cuStreamGetCaptureInfo_v3(own(hStream), captureStatus, id, graph, dependencies,
					 edgeData, numDependencies);
}

CUresult cuStreamGetCtx_ptsz(CUstream hStream, CUcontext *pctx)
{
	return cuStreamGetCtx(own(hStream), pctx);
}

CUresult cuStreamGetCtx_v2_ptsz(CUstream hStream, CUcontext *pCtx, void **pGreenCtx)
{
	return cuStreamGetCtx_v2(own(hStream), pCtx, pGreenCtx);
}

CUresult cuStreamGetDevice_ptsz(CUstream hStream, CUdevice *device)
{
	return cuStreamGetDevice(own(hStream), device);
}

CUresult cuStreamGetFlags_ptsz(CUstream hStream, unsigned int *flags)
{
	return cuStreamGetFlags(own(hStream), flags);
}

CUresult cuStreamGetId_ptsz(CUstream hStream, unsigned long long *streamId)
{
	return cuStreamGetId(own(hStream), streamId);
}

CUresult cuStreamGetPriority_ptsz(CUstream hStream, int *priority)
{
	return cuStreamGetPriority(own(hStream), priority);
}

CUresult cuStreamIsCapturing_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	return cuStreamIsCapturing(own(hStream), captureStatus);
}

CUresult cuStreamQuery_ptsz(CUstream hStream)
{
	return cuStreamQuery(own(hStream));
}

CUresult cuStreamSetAttribute_ptsz(CUstream hStream, CUstreamAttrID attr,
				   const CUstreamAttrValue *value)
{
	return cuStreamSetAttribute(own(hStream), attr, value);
}

CUresult cuStreamSynchronize_ptsz(CUstream hStream)
{
	return cuStreamSynchronize(own(hStream));
}

CUresult cuStreamWaitEvent_ptsz(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	return cuStreamWaitEvent(own(hStream), hEvent, Flags);
}

CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *pCopy)
{
	return finish(cuMemcpy2DAsync_v2(pCopy, CU_STREAM_PER_THREAD));
}

CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *pCopy)
{
	return finish(cuMemcpy2DAsync_v2(pCopy, CU_STREAM_PER_THREAD));
}

CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *pCopy)
{
	return finish(cuMemcpy3DAsync_v2(pCopy, CU_STREAM_PER_THREAD));
}

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
	return finish(cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, CU_STREAM_PER_THREAD));
}

CUresult cuMemcpyDtoH_v2_ptds(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
	return finish(cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount, CU_STREAM_PER_THREAD));
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
	return finish(cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, CU_STREAM_PER_THREAD));
}

CUresult cuMemcpyPeer_ptds(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
			   CUcontext srcContext, size_t ByteCount)
{
	return finish(cuMemcpyPeerAsync(dstDevice, dstContext, srcDevice, srcContext, ByteCount,
					CU_STREAM_PER_THREAD));
}

CUresult cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
	return finish(cuMemcpyAsync(dst, src, ByteCount, CU_STREAM_PER_THREAD));
}

CUresult cuMemsetD16_v2_ptds(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
	return cuMemsetD16Async(dstDevice, us, N, CU_STREAM_PER_THREAD);
}

CUresult cuMemsetD2D16_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
			       size_t Width, size_t Height)
{
	return cuMemsetD2D16Async(dstDevice, dstPitch, us, Width, Height, CU_STREAM_PER_THREAD);
}

CUresult cuMemsetD2D32_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui,
			       size_t Width, size_t Height)
{
	return cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width, Height, CU_STREAM_PER_THREAD);
}

CUresult cuMemsetD2D8_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc,
			      size_t Width, size_t Height)
{
	return cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width, Height, CU_STREAM_PER_THREAD);
}

CUresult cuMemsetD32_v2_ptds(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
	return cuMemsetD32Async(dstDevice, ui, N, CU_STREAM_PER_THREAD);
}

CUresult cuMemsetD8_v2_ptds(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
	return cuMemsetD8Async(dstDevice, uc, N, CU_STREAM_PER_THREAD);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph,
					   CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	return cuGraphInstantiateWithParams(phGraphExec, hGraph, instantiateParams);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
	return cuGraphLaunch(hGraphExec, own(hStream));
}

CUresult cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
	return cuGraphUpload(hGraphExec, own(hStream));
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode)
{
	return cuStreamBeginCapture_v2(own(hStream), mode);
}

CUresult cuStreamBeginCapture_ptsz(CUstream hStream)
{
	return cuStreamBeginCapture(own(hStream));
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph,
					  const CUgraphNode *dependencies,
					  const CUgraphEdgeData *dependencyData,
					  size_t numDependencies, CUstreamCaptureMode mode)
{
	return cuStreamBeginCaptureToGraph(own(hStream), hGraph, dependencies, dependencyData,
					   numDependencies, mode);
}

CUresult cuStreamEndCapture_ptsz(CUstream hStream, CUgraph *phGraph)
{
	return cuStreamEndCapture(own(hStream), phGraph);
}

CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream hStream, CUgraphNode *dependencies,
						   const CUgraphEdgeData *dependencyData,
						   size_t numDependencies, unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies_v2(own(hStream), dependencies, dependencyData,
						    numDependencies, flags);
}

CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream hStream, CUgraphNode *dependencies,
						size_t numDependencies, unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies(own(hStream), dependencies, numDependencies,
						 flags);
}

CUresult cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned int count,
				    CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	return cuStreamBatchMemOp_v2(own(stream), count, paramArray, flags);
}

CUresult cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				     unsigned int flags)
{
	return cuStreamWaitValue32_v2(own(stream), addr, value, flags);
}

CUresult cuStreamWaitValue64_v2_ptsz(CUstream stream, CUdeviceptr addr, cuuint64_t value,
				     unsigned int flags)
{
	return cuStreamWaitValue64_v2(own(stream), addr, value, flags);
}

CUresult cuStreamWriteValue32_v2_ptsz(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				      unsigned int flags)
{
	return cuStreamWriteValue32_v2(own(stream), addr, value, flags);
}

CUresult cuStreamWriteValue64_v2_ptsz(CUstream stream, CUdeviceptr addr, cuuint64_t value,
				      unsigned int flags)
{
	return cuStreamWriteValue64_v2(own(stream), addr, value, flags);
}

CUresult cuStreamBatchMemOp_ptsz(CUstream stream, unsigned int count,
				 CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	return cuStreamBatchMemOp(own(stream), count, paramArray, flags);
}

CUresult cuStreamWaitValue32_ptsz(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				  unsigned int flags)
{
	return cuStreamWaitValue32(own(stream), addr, value, flags);
}

CUresult cuStreamWaitValue64_ptsz(CUstream stream, CUdeviceptr addr, cuuint64_t value,
				  unsigned int flags)
{
	return cuStreamWaitValue64(own(stream), addr, value, flags);
}

CUresult cuStreamWriteValue32_ptsz(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				   unsigned int flags)
{
	return cuStreamWriteValue32(own(stream), addr, value, flags);
}

CUresult cuStreamWriteValue64_ptsz(CUstream stream, CUdeviceptr addr, cuuint64_t value,
				   unsigned int flags)
{
	return cuStreamWriteValue64(own(stream), addr, value, flags);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	return cuMemAllocAsync(dptr, bytesize, own(hStream));
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
				      CUstream hStream)
{
	return cuMemAllocFromPoolAsync(dptr, bytesize, pool, own(hStream));
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream)
{
	return cuMemFreeAsync(dptr, own(hStream));
}

CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
	return cuMemcpy3DPeerAsync(pCopy, own(hStream));
}

CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER *pCopy)
{
	return finish(cuMemcpy3DPeerAsync(pCopy, CU_STREAM_PER_THREAD));
}
