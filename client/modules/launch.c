/*
 * client/modules/launch.c - kernel launches: checked here like the driver's immediate checks (D7),
 * then sent one-way.
 */
#include <stdlib.h>
#include <string.h>

#include "client/objects/capture.h"
#include "client/link/client.h"
#include "client/modules/launch.h"
#include "client/managed/managed.h"
#include "elf/kernels.h"
#include "util/env.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

#define DEFAULT_SHARED 49152 /* static and dynamic, unless raised */

static CUresult check_dimensions(const struct ck_launch *l, CUdevice dev, uint64_t *threads)
{
	static const CUdevice_attribute grid_max[3] = {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
						       CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
						       CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};
	static const CUdevice_attribute block_max[3] = {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
							CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
							CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z};

	const struct ckc_gpu *gpu = ckc_gpu(dev);
	const int *most;

	if (!gpu)
		return CUDA_ERROR_INVALID_VALUE;
	most = gpu->attributes;
	*threads = 1;
	for (int i = 0; i < 3; i++) {
		if (l->grid[i] == 0 || l->block[i] == 0 ||
		    l->grid[i] > (unsigned)most[grid_max[i]] ||
		    l->block[i] > (unsigned)most[block_max[i]])
			return CUDA_ERROR_INVALID_VALUE;
		*threads *= l->block[i];
	}
	if (*threads > (unsigned)most[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK])
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/*
 * Check the kernel's own limits. The image gives an estimate. Before a launch is refused because of
 * it, ask the driver (the answer is cached): only the driver knows its reserved bytes.
 */
static CUresult check_kernel(const struct ck_launch *l, struct ck_function *f, CUdevice dev,
			     uint64_t threads)
{
	const struct ck_kernel *k = f->kernel;
	uint64_t registers = (k->registers * 32u + 255) / 256 * 256 * ((threads + 31) / 32);
	int limit;
	CUresult err;

	if (registers >
		    (unsigned)ckc_gpu_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK) ||
	    (k->max_threads && threads > k->max_threads)) {
		err = cuFuncGetAttribute(&limit, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
					 (CUfunction)f);
		if (err)
			return err;
		if (threads > (unsigned)limit)
			return k->max_threads && threads > k->max_threads
				       ? CUDA_ERROR_INVALID_VALUE
				       : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	}
	if ((uint64_t)l->shared + k->shared > DEFAULT_SHARED &&
	    (int64_t)l->shared > f->max_dynamic_shared) {
		err = cuFuncGetAttribute(&limit, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
					 (CUfunction)f);
		if (err || (int64_t)l->shared > limit)
			return err ? err : CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

bool ckc_launch_blocking(void)
{
	static _Atomic int known = -1;
	const char *value;

	if (unlikely(known < 0)) {
		value = ck_env_string("CUDA_LAUNCH_BLOCKING");
		known = value && *value && strcmp(value, "0") != 0;
	}
	return known;
}

/* Where to store the handle by which kernels update the node that the launch becomes; NULL: the
 * launch does not request one. */
static cuuint64_t *find_updatable_node(const struct ck_launch *l)
{
	for (unsigned int i = 0; i < l->attribute_count; i++) {
		const CUlaunchAttribute *a = &l->attributes[i];

		if (a->id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE &&
		    a->value.deviceUpdatableKernelNode.deviceUpdatable)
			return (cuuint64_t *)(uintptr_t)&a->value.deviceUpdatableKernelNode.devNode;
	}
	return NULL;
}

/* Wait for a blocking launch; a captured one does not run. */
CUresult ckc_launch_wait(CUstream handle)
{
	struct ckc_stream *s;
	CUresult err = ckc_stream_from(handle, &s);

	if (err || ckc_capturing(s))
		return err;
	err = ckc_stream_synchronize(handle);
	if (unlikely(err))
		ckc_launch_site_report(err);
	return err;
}

CUresult ckc_launch_check(const struct ck_launch *l, struct ck_function *f, CUdevice device)
{
	uint64_t threads;
	CUresult err = check_dimensions(l, device, &threads);

	return err ? err : check_kernel(l, f, device, threads);
}

/* A refused launch invalidates the capture of its stream. */
static CUresult invalidate_capture(CUstream handle, CUresult err)
{
	struct ckc_stream *s;

	if (ckc_captures_any() && !ckc_stream_from(handle, &s))
		ckc_capture_fail(s);
	return err;
}

/* A launch, checked and encoded; the caller provides memory for parameters and attributes. */
struct prepared {
	unsigned char *room;
	CUlaunchAttribute *attributes;
	struct ckc_context *ctx; /* the current one */
	struct ckc_stream *s;
	struct ckc_context *home;  /* of the stream */
	uint64_t stream, function; /* their ids */
	const void *block;
	size_t size;
	unsigned int n;
};

/* Find the stream, and check that it is not one of another context. */
static CUresult prepare_stream(const struct ck_function *f, const struct ck_launch *l,
			       struct prepared *p)
{
	CUresult err = ckc_stream_from(l->stream, &p->s);

	if (err)
		return err;
	if (!f->module->library && !ckc_stream_takes(p->s, f->module->object.context))
		return CUDA_ERROR_INVALID_HANDLE;
	p->home = p->s ? p->s->object.context : p->ctx;
	p->stream = p->s ? p->s->object.id : 0;
	return ckc_capture_work(p->s);
}

static CUresult prepare_attributes(const struct ck_function *f, const struct ck_launch *l,
				   struct prepared *p)
{
	CUresult err;

	p->n = 0;
	if (!l->attribute_count)
		return CUDA_SUCCESS;
	err = ckc_launch_attributes(l, p->attributes, &p->n);
	return err || !p->n ? err : ckc_cluster_check((CUfunction)f, l->grid, p->attributes, p->n);
}

static CUresult prepare_params(const struct ck_function *f, const struct ck_launch *l,
			       struct prepared *p)
{
	CUresult err = ckc_launch_params(f, l->params, l->extra, p->room, &p->block, &p->size);

	if (err)
		return err;
	p->block = ckc_managed_host(p->block, p->size, false);
	if (!p->block && p->size > 0)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	return ckc_launch_expose(f->kernel, p->block, p->size);
}

static CUresult prepare_launch(struct ck_function *f, const struct ck_launch *l, struct prepared *p)
{
	CUresult err = ckc_launch_check(l, f, p->ctx->device);

	if (err)
		return err;
	err = prepare_stream(f, l, p);
	if (err)
		return err;
	ckc_launch_loading(f, p->home);
	err = ckc_function_announce(f, &p->function);
	if (err)
		return err;
	err = prepare_attributes(f, l, p);
	return err ? err : prepare_params(f, l, p);
}

/* The arguments of a message of either kind. */
#define MESSAGE(type, l, p)                                                                        \
	(&(type){.head.ctx = (p)->ctx->object.id,                                                  \
		 .function = (p)->function,                                                        \
		 .stream = (p)->stream,                                                            \
		 .gx = (l)->grid[0],                                                               \
		 .gy = (l)->grid[1],                                                               \
		 .gz = (l)->grid[2],                                                               \
		 .bx = (l)->block[0],                                                              \
		 .by = (l)->block[1],                                                              \
		 .bz = (l)->block[2],                                                              \
		 .shared = (l)->shared,                                                            \
		 .params = CK_LIST((p)->block, (p)->size),                                         \
		 .attributes = CK_LIST((p)->attributes, (p)->n * sizeof((p)->attributes[0]))})

/* Into a graph whose kernels can change the node: the reply says which node it is. */
static CUresult send_updatable(const struct ck_launch *l, const struct prepared *p)
{
	ck_launch_updatable_res r;
	CUresult err = ck_wire_launch_updatable(MESSAGE(ck_launch_updatable_args, l, p), &r);

	if (!err)
		*find_updatable_node(l) = r.device_node;
	ckc_command_called();
	return err;
}

static CUresult launch_prepared(struct ck_function *f, const struct ck_launch *l, struct prepared p)
{
	CUresult err = prepare_launch(f, l, &p);

	if (unlikely(err)) {
		ck_debug("launch of %s refused: %d", f->kernel->name, (int)err);
		return invalidate_capture(l->stream, err);
	}
	if (likely(!ckc_capturing(p.s)))
		ckc_managed_launch();
	if (unlikely(find_updatable_node(l)))
		return send_updatable(l, &p);
	err = ck_wire_launch(MESSAGE(ck_launch_args, l, &p));
	if (likely(!err && !ckc_capturing(p.s)))
		ckc_launch_loaded(f, p.home, p.stream);
	return unlikely(ckc_launch_blocking()) && !err ? ckc_launch_wait(l->stream) : err;
}

static CUresult launch_kernel(CUfunction handle, const struct ck_launch *l)
{
	struct ck_function *f = ckc_function_from(handle);
	struct prepared p = {.attributes = NULL};
	CUresult err = ckc_context_usable(&p.ctx);

	if (err)
		return err;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (l->params && l->extra)
		return CUDA_ERROR_INVALID_VALUE;
	p.room = ckc_room_take(f->kernel->param_bytes);
	if (unlikely(l->attribute_count > 0))
		p.attributes = ckc_room_take(
			sizeof(*p.attributes) *
			ck_min(l->attribute_count, (unsigned int)CK_LAUNCH_ATTRIBUTES));
	err = CUDA_ERROR_OUT_OF_MEMORY;
	if (likely(p.room && (p.attributes || l->attribute_count == 0)))
		err = launch_prepared(f, l, p);
	if (unlikely(p.attributes))
		ckc_room_give(p.attributes);
	ckc_room_give(p.room);
	return err;
}

CK_EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
				  unsigned int gridDimZ, unsigned int blockDimX,
				  unsigned int blockDimY, unsigned int blockDimZ,
				  unsigned int sharedMemBytes, CUstream hStream,
				  void **kernelParams, void **extra)
{
	struct ck_launch l = {.grid = {gridDimX, gridDimY, gridDimZ},
			      .block = {blockDimX, blockDimY, blockDimZ},
			      .shared = sharedMemBytes,
			      .stream = hStream,
			      .params = kernelParams,
			      .extra = extra};

	return launch_kernel(f, &l);
}

CK_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
				    void **extra)
{
	struct ck_launch l;

	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	l = (struct ck_launch){.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
			       .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
			       .shared = config->sharedMemBytes,
			       .stream = config->hStream,
			       .attributes = config->attrs,
			       .attribute_count = config->numAttrs,
			       .params = kernelParams,
			       .extra = extra};
	return launch_kernel(f, &l);
}

CUresult ckc_launch_check_cooperative(CUfunction f, const struct ck_launch *l)
{
	uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
	struct ckc_context *ctx;
	int per_sm = 0;
	CUresult err = ckc_context_usable(&ctx);

	if (!err)
		err = cuOccupancyMaxActiveBlocksPerMultiprocessor(
			&per_sm, f, (int)(l->block[0] * l->block[1] * l->block[2]), l->shared);
	if (err)
		return err;
	if (blocks > (uint64_t)per_sm *
			     (unsigned)ckc_gpu_attribute(ctx->device,
							 CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT))
		return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX,
					     unsigned int gridDimY, unsigned int gridDimZ,
					     unsigned int blockDimX, unsigned int blockDimY,
					     unsigned int blockDimZ, unsigned int sharedMemBytes,
					     CUstream hStream, void **kernelParams)
{
	CUlaunchAttribute cooperative = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE};
	struct ck_launch l = {.grid = {gridDimX, gridDimY, gridDimZ},
			      .block = {blockDimX, blockDimY, blockDimZ},
			      .shared = sharedMemBytes,
			      .stream = hStream,
			      .attributes = &cooperative,
			      .attribute_count = 1,
			      .params = kernelParams};
	CUresult err;

	cooperative.value.cooperative = 1;
	err = ckc_launch_check_cooperative(f, &l);
	return err ? err : launch_kernel(f, &l);
}
