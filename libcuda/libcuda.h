/*
 * libcuda/libcuda.h - functions that the files of this folder call in the driver library that they
 * are linked into, and functions that it calls in some of them. Each library has the functions of
 * the first part of its own; everything else is asked by CUDA's calls.
 */
#ifndef CK_LIBCUDA_LIBCUDA_H
#define CK_LIBCUDA_LIBCUDA_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/nvml.h"
#include "cuda/types.h"

#define CK_LIBCUDA_DEVICES 64 /* no library has more */

struct ck_entry;

/*
 * *@context: the context that @handle is, known though perhaps not active; NULL and -1 mean the
 * calling thread's current one. INVALID_CONTEXT, DEINITIALIZED at the end of the process.
 */
CUresult ck_libcuda_context(CUcontext handle, CUcontext *context);

/* The handle of a device's primary context, without retaining it. */
CUresult ck_libcuda_primary(CUcontext *context, CUdevice device);

/*
 * For each of @tpcs pairs of multiprocessors of @device the GPC that it is in and its index in
 * that. Called at most once a device, with a context on it current.
 */
CUresult ck_libcuda_tpc_map(CUdevice device, unsigned char *gpc, unsigned char *index, size_t tpcs);

/*
 * Mark whether the calling thread is inside a callback, which may make no CUDA call; returns the
 * former state.
 */
bool ck_libcuda_inside(bool inside);

/* INVALID_VALUE for the legacy stream, of which there is one for all: it takes no batches. */
CUresult ck_libcuda_takes_batch(CUstream stream);

/* Add a node to @graph behind @count dependencies; CUDA's outputs are written into @params. */
CUresult ck_libcuda_node_add(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
			     size_t count, CUgraphNodeParams *params);
/* Change the parameters of @node in @exec, or (@exec is NULL) in its graph. */
CUresult ck_libcuda_node_change(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params);
/*
 * The parameters of a node of @type: INVALID_VALUE if it is of another type. Memory that they point
 * to lives until the node is queried again or destroyed.
 */
CUresult ck_libcuda_node_params(CUgraphNode node, CUgraphNodeType type, CUgraphNodeParams *params);

/* An export table that the library has beside those of export_tables.c, or NULL. */
const void *ck_libcuda_own_table(const CUuuid *id);

/* A call of NVIDIA's runtime, CUPTI's number @id, begins or ends (export_tables.h). @info is the
 * runtime's own. */
void ck_libcuda_runtime_call(uint32_t id, const void *info);

/* Has NVML been started? The error of a call if not. Each call of NVML asks this first. */
nvmlReturn_t ck_libcuda_nvml_enter(void);

/* Is @device one of NVML's devices? INVALID_ARGUMENT if not. */
nvmlReturn_t ck_libcuda_nvml_device(nvmlDevice_t device);

/* The CUDA version above which cuGetProcAddress knows nothing; works before cuInit. */
int ck_libcuda_version(void);

/* The address that cuGetProcAddress hands out for @entry. */
void *ck_libcuda_address(const struct ck_entry *entry);

/* --- the logs that an application may read (logs.c) */

/* Keep the errors and warnings that are logged from now on. */
void ck_logs_begin(void);

/* --- launches as they were before CUDA 4 (old_launch.c) */

/* Forget the function and its settings. */
void ck_old_launch_forget(CUfunction function);

/* --- texts of errors of NVML (nvml_error.c) */

const char *ck_nvml_error_text(unsigned int code);

#endif
