/*
 * emu/capture.c - questions about stream capture. Nothing here captures, so the answer is no.
 */
#include "emu/emu.h"

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	struct ck_emu_context *context;
	struct ck_emu_stream *stream;
	CUresult result = ck_emu_enter(&context);

	if (result == CUDA_SUCCESS)
		result = ck_emu_stream_get(hStream, context, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (captureStatus)
		*captureStatus = CU_STREAM_CAPTURE_STATUS_NONE;
	ck_emu_object_put(&stream->base);
	return captureStatus ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus,
				cuuint64_t *id)
{
	CUresult result = cuStreamIsCapturing(hStream, captureStatus);

	if (result == CUDA_SUCCESS && id)
		*id = 0;
	return result;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus,
				   cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
				   size_t *numDependencies)
{
	return cuStreamGetCaptureInfo_v3(hStream, captureStatus, id, graph, dependencies, NULL,
					 numDependencies);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus,
				   cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
				   const void **edgeData, size_t *numDependencies)
{
	CUresult result = cuStreamGetCaptureInfo(hStream, captureStatus, id);

	if (result != CUDA_SUCCESS)
		return result;
	if (graph)
		*graph = NULL;
	if (dependencies)
		*dependencies = NULL;
	if (edgeData)
		*edgeData = NULL;
	if (numDependencies)
		*numDependencies = 0;
	return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	if (!mode || (unsigned int)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = ck_emu_thread_capture_mode(*mode);
	return CUDA_SUCCESS;
}
