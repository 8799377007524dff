/*
 * loader/stubs/cuda.c - libcuda.so.1 for the application: the calls that take or give addresses of
 * functions. All others are entries (gen/cuda.py).
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cuda/nvml.h"
#include "cuda/types.h"
#include "loader/stubs/cuda.h"
#include "loader/stubs/stub.h"

#define API __attribute__((visibility("default")))

const char lh_stub_half[] = "cuda";

long lh_stub_error(const char *name)
{
	static int told;

	if (!strncmp(name, "nvml", 4))
		return NVML_ERROR_LIBRARY_NOT_FOUND;
	if (!lh_half_at || !lh_half_at->table)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
		fprintf(stderr, "kernel-loader: cuda: the driver library has no %s\n", name);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* --- functions of the application */

static long call_user_function(long a, long b, long c, long d, long e, long f, void *user,
			       const long *stack)
{
	(void)stack;
	return ((long (*)(long, long, long, long, long, long))user)(a, b, c, d, e, f);
}

void *lh_host_function(void *function)
{
	return function ? lh_callback_any_thread(call_user_function, function) : NULL;
}

#define HOST(function) ((__typeof__(function))lh_host_function((void *)(function)))

static void *unwrap_function(void *function)
{
	lh_target target;
	void *user;

	return lh_callback_behind(function, &target, &user) ? user : function;
}

/* The same call with the per-thread default stream. */
#define PER_THREAD(name, params, args)                                                             \
	CUresult lh_##name##_ptsz params;                                                          \
	API CUresult name##_ptsz params;                                                           \
	API CUresult name##_ptsz params                                                            \
	{                                                                                          \
		return lh_##name##_ptsz args;                                                      \
	}

#define ENTRY(name, params)                                                                        \
	CUresult lh_##name params;                                                                 \
	API CUresult name params

ENTRY(cuLaunchHostFunc, (CUstream stream, CUhostFn fn, void *data));
API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *data)
{
	return lh_cuLaunchHostFunc(stream, HOST(fn), data);
}
PER_THREAD(cuLaunchHostFunc, (CUstream stream, CUhostFn fn, void *data), (stream, HOST(fn), data))

ENTRY(cuStreamAddCallback, (CUstream stream, CUstreamCallback fn, void *data, unsigned int flags));
API CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback fn, void *data,
				 unsigned int flags)
{
	return lh_cuStreamAddCallback(stream, HOST(fn), data, flags);
}
PER_THREAD(cuStreamAddCallback,
	   (CUstream stream, CUstreamCallback fn, void *data, unsigned int flags),
	   (stream, HOST(fn), data, flags))

ENTRY(cuUserObjectCreate,
      (CUuserObject * out, void *ptr, CUhostFn fn, unsigned int count, unsigned int flags));
API CUresult cuUserObjectCreate(CUuserObject *out, void *ptr, CUhostFn fn, unsigned int count,
				unsigned int flags)
{
	return lh_cuUserObjectCreate(out, ptr, HOST(fn), count, flags);
}

ENTRY(cuDeviceRegisterAsyncNotification,
      (CUdevice device, CUasyncCallback fn, void *data, CUasyncCallbackHandle *out));
API CUresult cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback fn, void *data,
					       CUasyncCallbackHandle *out)
{
	return lh_cuDeviceRegisterAsyncNotification(device, HOST(fn), data, out);
}

ENTRY(cuLogsRegisterCallback, (CUlogsCallback fn, void *data, CUlogsCallbackHandle *out));
API CUresult cuLogsRegisterCallback(CUlogsCallback fn, void *data, CUlogsCallbackHandle *out)
{
	return lh_cuLogsRegisterCallback(HOST(fn), data, out);
}

ENTRY(cuOccupancyMaxPotentialBlockSize,
      (int *grid, int *block, CUfunction f, CUoccupancyB2DSize fn, size_t shared, int limit));
API CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction f,
					      CUoccupancyB2DSize fn, size_t shared, int limit)
{
	return lh_cuOccupancyMaxPotentialBlockSize(grid, block, f, HOST(fn), shared, limit);
}

ENTRY(cuOccupancyMaxPotentialBlockSizeWithFlags,
      (int *grid, int *block, CUfunction f, CUoccupancyB2DSize fn, size_t shared, int limit,
       unsigned int flags));
API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction f,
						       CUoccupancyB2DSize fn, size_t shared,
						       int limit, unsigned int flags)
{
	return lh_cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, f, HOST(fn), shared, limit,
							    flags);
}

/* --- graph nodes: the function is in a structure, which is the application's and stays as it is */

/* Declares @changed, a copy of *params with the function that the lower half may call, or NULL. */
#define HOST_PARAMS(params)                                                                        \
	CUDA_HOST_NODE_PARAMS copy_, *changed = (params) ? &copy_ : NULL;                          \
	if (changed) {                                                                             \
		copy_ = *(params);                                                                 \
		copy_.fn = HOST(copy_.fn);                                                         \
	}

ENTRY(cuGraphAddHostNode, (CUgraphNode * out, CUgraph graph, const CUgraphNode *from, size_t n,
			   const CUDA_HOST_NODE_PARAMS *params));
API CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *from, size_t n,
				const CUDA_HOST_NODE_PARAMS *params)
{
	HOST_PARAMS(params);
	return lh_cuGraphAddHostNode(out, graph, from, n, changed);
}

ENTRY(cuGraphHostNodeSetParams, (CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params));
API CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params)
{
	HOST_PARAMS(params);
	return lh_cuGraphHostNodeSetParams(node, changed);
}

ENTRY(cuGraphExecHostNodeSetParams,
      (CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params));
API CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
					  const CUDA_HOST_NODE_PARAMS *params)
{
	HOST_PARAMS(params);
	return lh_cuGraphExecHostNodeSetParams(exec, node, changed);
}

ENTRY(cuGraphHostNodeGetParams, (CUgraphNode node, CUDA_HOST_NODE_PARAMS *params));
API CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *params)
{
	CUresult err = lh_cuGraphHostNodeGetParams(node, params);

	if (!err)
		params->fn = (CUhostFn)unwrap_function((void *)params->fn);
	return err;
}

/* These write into the structure (an address that the node got), so it is passed itself. */
#define NODE_PARAMS(params, call)                                                                  \
	CUhostFn fn_ = NULL;                                                                       \
	bool host_ = (params) && (params)->type == CU_GRAPH_NODE_TYPE_HOST;                        \
	CUresult err_;                                                                             \
	if (host_) {                                                                               \
		fn_ = (params)->host.fn;                                                           \
		(params)->host.fn = HOST(fn_);                                                     \
	}                                                                                          \
	err_ = call;                                                                               \
	if (host_)                                                                                 \
		(params)->host.fn = fn_;                                                           \
	return err_

ENTRY(cuGraphAddNode, (CUgraphNode * out, CUgraph graph, const CUgraphNode *from, size_t n,
		       CUgraphNodeParams *params));
API CUresult cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *from, size_t n,
			    CUgraphNodeParams *params)
{
	NODE_PARAMS(params, lh_cuGraphAddNode(out, graph, from, n, params));
}

ENTRY(cuGraphAddNode_v2, (CUgraphNode * out, CUgraph graph, const CUgraphNode *from,
			  const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *params));
API CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *from,
			       const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *params)
{
	NODE_PARAMS(params, lh_cuGraphAddNode_v2(out, graph, from, edges, n, params));
}

ENTRY(cuGraphNodeSetParams, (CUgraphNode node, CUgraphNodeParams *params));
API CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
	NODE_PARAMS(params, lh_cuGraphNodeSetParams(node, params));
}

ENTRY(cuGraphExecNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params));
API CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
	NODE_PARAMS(params, lh_cuGraphExecNodeSetParams(exec, node, params));
}

/* --- addresses of the lower half: a call through one would run on the application's thread
 * block */

ENTRY(cuGetProcAddress, (const char *symbol, void **pfn, int version, cuuint64_t flags));
API CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	CUresult err = lh_cuGetProcAddress(symbol, pfn, version, flags);

	if (!err && pfn && *pfn)
		*pfn = lh_upper_address(*pfn);
	return err;
}

ENTRY(cuGetProcAddress_v2, (const char *symbol, void **pfn, int version, cuuint64_t flags,
			    CUdriverProcAddressQueryResult *status));
API CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
				 CUdriverProcAddressQueryResult *status)
{
	CUresult err = lh_cuGetProcAddress_v2(symbol, pfn, version, flags, status);

	if (!err && pfn && *pfn)
		*pfn = lh_upper_address(*pfn);
	return err;
}

ENTRY(cuGetExportTable, (const void **table, const CUuuid *id));
API CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
	CUresult err = lh_cuGetExportTable(table, id);

	if (!err && table && *table && id && !lh_turn_table((void **)(uintptr_t)*table, id)) {
		*table = NULL;
		err = CUDA_ERROR_NOT_FOUND;
	}
	return err;
}

nvmlReturn_t lh_nvmlInternalGetExportTable(const void **table, const void *id);
API nvmlReturn_t nvmlInternalGetExportTable(const void **table, const void *id);
API nvmlReturn_t nvmlInternalGetExportTable(const void **table, const void *id)
{
	nvmlReturn_t err = lh_nvmlInternalGetExportTable(table, id);

	if (!err && table && *table && id && !lh_turn_table((void **)(uintptr_t)*table, id)) {
		*table = NULL;
		err = NVML_ERROR_FUNCTION_NOT_FOUND;
	}
	return err;
}
