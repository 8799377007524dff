/*
 * tests/test_apps/any_runtime.h - what any_runtime.c calls of the CUDA runtime, declared here so
 * that one program fits every release from 11.8 on: only calls whose form has not changed since.
 */
#ifndef ANY_RUNTIME_H
#define ANY_RUNTIME_H

#include <stddef.h>

struct dim3 {
	unsigned int x, y, z;
};

/* The runtime's own form of what nvcc puts into .nvFatBinSegment. */
struct fat_binary {
	int magic, version;
	const void *data;
	void *file_name;
};
#define FAT_BINARY_MAGIC 0x466243b1

enum {
	HOST_TO_DEVICE = 1,
	DEVICE_TO_HOST = 2,
	ATTRIBUTE_WARP_SIZE = 10,
	ERROR_INVALID_VALUE = 1,
	ERROR_NOT_SUPPORTED = 801,
};

#define RUNTIME_CALLS(CALL)                                                                        \
	CALL(void **, __cudaRegisterFatBinary, (void *wrapper))                                    \
	CALL(void, __cudaRegisterFatBinaryEnd, (void **binary))                                    \
	CALL(void, __cudaUnregisterFatBinary, (void **binary))                                     \
	CALL(void, __cudaRegisterFunction,                                                         \
	     (void **binary, const void *host, const char *device, const char *name, int limit,    \
	      void *tid, void *bid, void *block, void *grid, void *warp))                          \
	CALL(void, __cudaRegisterVar,                                                              \
	     (void **binary, void *host, const char *device, const char *name, int external,       \
	      size_t size, int constant, int global))                                              \
	CALL(int, cudaRuntimeGetVersion, (int *version))                                           \
	CALL(int, cudaDriverGetVersion, (int *version))                                            \
	CALL(int, cudaGetDeviceCount, (int *count))                                                \
	CALL(int, cudaGetDeviceProperties, (void *properties, int device))                         \
	CALL(int, cudaDeviceGetAttribute, (int *value, int attribute, int device))                 \
	CALL(int, cudaSetDevice, (int device))                                                     \
	CALL(int, cudaDeviceSynchronize, (void))                                                   \
	CALL(int, cudaDeviceReset, (void))                                                         \
	CALL(int, cudaMalloc, (void **at, size_t size))                                            \
	CALL(int, cudaFree, (void *at))                                                            \
	CALL(int, cudaMallocHost, (void **at, size_t size))                                        \
	CALL(int, cudaFreeHost, (void *at))                                                        \
	CALL(int, cudaMemset, (void *at, int value, size_t size))                                  \
	CALL(int, cudaMemcpy, (void *to, const void *from, size_t size, int kind))                 \
	CALL(int, cudaMemcpyAsync,                                                                 \
	     (void *to, const void *from, size_t size, int kind, void *stream))                    \
	CALL(int, cudaMemcpyToSymbol,                                                              \
	     (const void *symbol, const void *from, size_t size, size_t offset, int kind))         \
	CALL(int, cudaMemcpyFromSymbol,                                                            \
	     (void *to, const void *symbol, size_t size, size_t offset, int kind))                 \
	CALL(int, cudaStreamCreate, (void **stream))                                               \
	CALL(int, cudaStreamSynchronize, (void *stream))                                           \
	CALL(int, cudaStreamWaitEvent, (void *stream, void *event, unsigned int flags))            \
	CALL(int, cudaStreamDestroy, (void *stream))                                               \
	CALL(int, cudaStreamBeginCapture, (void *stream, int mode))                                \
	CALL(int, cudaStreamEndCapture, (void *stream, void **graph))                              \
	CALL(int, cudaGraphInstantiateWithFlags,                                                   \
	     (void **exec, void *graph, unsigned long long flags))                                 \
	CALL(int, cudaGraphLaunch, (void *exec, void *stream))                                     \
	CALL(int, cudaGraphExecDestroy, (void *exec))                                              \
	CALL(int, cudaGraphDestroy, (void *graph))                                                 \
	CALL(int, cudaEventCreate, (void **event))                                                 \
	CALL(int, cudaEventRecord, (void *event, void *stream))                                    \
	CALL(int, cudaEventSynchronize, (void *event))                                             \
	CALL(int, cudaEventElapsedTime, (float *ms, void *start, void *end))                       \
	CALL(int, cudaEventDestroy, (void *event))                                                 \
	CALL(int, cudaMallocAsync, (void **at, size_t size, void *stream))                         \
	CALL(int, cudaFreeAsync, (void *at, void *stream))                                         \
	CALL(int, cudaLaunchKernel,                                                                \
	     (const void *function, struct dim3 grid, struct dim3 block, void **arguments,         \
	      size_t shared, void *stream))                                                        \
	CALL(int, cudaOccupancyMaxActiveBlocksPerMultiprocessor,                                   \
	     (int *blocks, const void *function, int block, size_t shared))                        \
	CALL(int, cudaGetLastError, (void))                                                        \
	CALL(const char *, cudaGetErrorName, (int error))                                          \
	CALL(const char *, cudaGetErrorString, (int error))

#endif
