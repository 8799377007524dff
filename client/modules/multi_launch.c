/*
 * client/modules/multi_launch.c - a cooperative launch on several devices, in one message.
 *
 * The message is one-way, as for other launches, so the client refuses all that the driver would
 * refuse.
 */
#include <stdlib.h>
#include <string.h>

#include "client/objects/capture.h"
#include "client/link/client.h"
#include "client/modules/launch.h"
#include "client/managed/managed.h"
#include "elf/kernels.h"
#include "rpc/launch.h"

#define FLAGS                                                                                      \
	(CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC |                                 \
	 CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC)

struct batch {
	unsigned char *bytes;
	size_t size;
};

static struct ck_launch launch_of(const CUDA_LAUNCH_PARAMS *p)
{
	return (struct ck_launch){
		.grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
		.block = {p->blockDimX, p->blockDimY, p->blockDimZ},
		.shared = p->sharedMemBytes,
		.stream = p->hStream,
		.params = p->kernelParams,
	};
}

/* Accepts only streams that the program created and that are not being captured. */
static CUresult stream_of(CUstream handle, struct ckc_stream **s)
{
	CUresult err;

	if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
		return CUDA_ERROR_INVALID_HANDLE; /* measured on an H200, driver 580 */
	err = ckc_stream_from(handle, s);
	return err ? err : ckc_capture_work_uncaptured(*s);
}

/* Check the @i-th launch by itself and against the earlier ones: the same shape, another device. */
static CUresult check_launch(const CUDA_LAUNCH_PARAMS *list, unsigned int i)
{
	struct ck_launch l = launch_of(&list[i]), first = launch_of(&list[0]);
	struct ck_function *f = ckc_function_from(list[i].function);
	struct ckc_stream *s, *other;
	CUresult err;

	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	err = stream_of(l.stream, &s);
	if (err)
		return err;
	for (unsigned int k = 0; k < i; k++) {
		err = ckc_stream_from(list[k].hStream, &other);
		if (err || other->object.context->device == s->object.context->device)
			return err ? err : CUDA_ERROR_INVALID_VALUE;
	}
	if (memcmp(l.grid, first.grid, sizeof(l.grid)) ||
	    memcmp(l.block, first.block, sizeof(l.block)) || l.shared != first.shared)
		return CUDA_ERROR_INVALID_VALUE;
	return ckc_launch_check(&l, f, s->object.context->device);
}

static CUresult pack_launch(const CUDA_LAUNCH_PARAMS *p, struct batch *b)
{
	struct ck_launch l = launch_of(p);
	struct ck_function *f = ckc_function_from(p->function);
	unsigned char *room = b->bytes + b->size + sizeof(struct ck_multi_launch);
	struct ck_multi_launch item = {.shared = l.shared};
	const void *block;
	struct ckc_stream *s;
	size_t size;
	CUresult err = ckc_stream_from(p->hStream, &s);

	if (!err && f)
		ckc_launch_loading(f, s->object.context);
	if (!err)
		err = f ? ckc_function_announce(f, &item.function) : CUDA_ERROR_INVALID_HANDLE;
	if (!err)
		err = ckc_launch_params(f, l.params, NULL, room, &block, &size);
	if (!err)
		err = ckc_launch_expose(f->kernel, room, size);
	if (err)
		return err;
	item.stream = s->object.id;
	item.params = (uint32_t)size;
	memcpy(item.grid, l.grid, sizeof(item.grid));
	memcpy(item.block, l.block, sizeof(item.block));
	memcpy(b->bytes + b->size, &item, sizeof(item));
	b->size += sizeof(item) + size;
	ckc_managed_launch();
	return CUDA_SUCCESS;
}

static void note_loaded(const CUDA_LAUNCH_PARAMS *p)
{
	struct ck_function *f = ckc_function_from(p->function);
	struct ckc_stream *s;

	if (f && !ckc_stream_from(p->hStream, &s))
		ckc_launch_loaded(f, s->object.context, s->object.id);
}

static CUresult send_all(const CUDA_LAUNCH_PARAMS *list, unsigned int n, unsigned int flags)
{
	size_t each = sizeof(struct ck_multi_launch) + CK_KERNEL_PARAM_MAX + 4;
	struct batch b = {.bytes = n <= CK_BYTES_MAX / each ? malloc(n * each) : NULL};
	CUresult err = CUDA_SUCCESS;
	uint64_t ctx;

	if (!b.bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned int i = 0; i < n && !err; i++)
		err = pack_launch(&list[i], &b);
	if (!err)
		err = ckc_enter(&ctx);
	if (!err)
		err = ck_wire_launch_multi(ctx, b.bytes, b.size, flags);
	for (unsigned int i = 0; i < n && !err; i++)
		note_loaded(&list[i]);
	free(b.bytes);
	return err;
}

CK_EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
							unsigned int numDevices, unsigned int flags)
{
	struct ckc_context *ctx;
	struct ck_launch first;
	CUresult err = ckc_context_usable(&ctx);

	if (err)
		return err;
	if (!launchParamsList || numDevices == 0 ||
	    numDevices > (unsigned)ckc_client_root()->gpu_count || flags & ~FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < numDevices && !err; i++)
		err = check_launch(launchParamsList, i);
	if (err)
		return err;
	first = launch_of(launchParamsList);
	err = ckc_launch_check_cooperative(launchParamsList[0].function, &first);
	if (!err)
		err = send_all(launchParamsList, numDevices, flags);
	for (unsigned int i = 0; i < numDevices && !err && ckc_launch_blocking(); i++)
		err = ckc_launch_wait(launchParamsList[i].hStream);
	return err;
}
