/*
 * emu/objects/callback.c - calling the application from a stream. Meanwhile that thread may not
 * call the driver (NOT_PERMITTED).
 */
#include <stdlib.h>

#include "emu/core/emu.h"
#include "emu/core/hooks.h"

struct callback {
	struct ck_emu_command command;
	CUhostFn function; /* one of the two is set */
	CUstreamCallback callback;
	CUstream handle; /* as the application named it */
	void *data;
};

void ck_emu_callback_call(CUhostFn function, void *data, struct ck_emu_context *context)
{
	ck_emu_print_flush(context);
	ck_emu_thread_callback(true);
	function(data);
	ck_emu_thread_callback(false);
}

static CUresult callback_run(struct ck_emu_command *command, struct ck_emu_context *context)
{
	const struct callback *call = (struct callback *)command;

	if (call->function) {
		ck_emu_callback_call(call->function, call->data, context);
		return CUDA_SUCCESS;
	}
	ck_emu_print_flush(context);
	ck_emu_thread_callback(true);
	call->callback(call->handle, ck_emu_context_state(context), call->data);
	ck_emu_thread_callback(false);
	return CUDA_SUCCESS;
}

static void callback_free(struct ck_emu_command *command)
{
	free(command);
}

static CUresult queue_callback(const struct callback *call)
{
	struct ck_emu_context *context;
	struct ck_emu_stream *stream;
	struct callback *copy;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	if (!call->function && !call->callback)
		return CUDA_ERROR_INVALID_VALUE;
	result = ck_emu_stream_get(call->handle, context, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (ck_emu_capturing(stream)) {
		const CUgraphNodeParams node = {
			.type = CU_GRAPH_NODE_TYPE_HOST,
			.host = {.fn = call->function, .userData = call->data},
		};

		/* a callback, unlike a host function, gets the stream's state: no node */
		result = call->function ? ck_emu_hooks->capture_node(stream, &node, NULL, 0)
					: ck_emu_hooks->capture_check(stream);
		goto put_stream;
	}
	copy = malloc(sizeof(*copy));
	if (copy) {
		*copy = *call;
		copy->command.run = callback_run;
		copy->command.free = callback_free;
		result = ck_emu_stream_submit(stream, &copy->command, NULL, NULL);
	} else {
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
put_stream:
	ck_emu_object_put(&stream->base);
	return result;
}

/* Called with the state of the context, faults included. */
CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
			     unsigned int flags)
{
	struct callback call = {
		.command.always = true, .callback = callback, .handle = hStream, .data = userData};

	return flags ? CUDA_ERROR_INVALID_VALUE : queue_callback(&call);
}

/* Not called once the context has a fault, as CUDA documents it. */
CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	struct callback call = {.function = fn, .handle = hStream, .data = userData};

	return queue_callback(&call);
}

/* --- notifications of a device: it would tell that a pool has grown too large, which none does */

struct notice {
	struct ck_emu_object base;
	CUdevice device;
};

static void notice_free(struct ck_emu_object *object)
{
	free(object);
}

CUresult cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback callbackFunc,
					   void *userData, CUasyncCallbackHandle *callback)
{
	CUresult result = ck_emu_enter_bare();
	struct notice *notice;

	(void)userData;
	if (result != CUDA_SUCCESS)
		return result;
	if (!ck_emu_device_at(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!callbackFunc || !callback)
		return CUDA_ERROR_INVALID_VALUE;
	notice = calloc(1, sizeof(*notice));
	if (!notice)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_emu_object_init(&notice->base, CK_EMU_NOTICE, NULL, notice_free);
	notice->device = device;
	result = ck_emu_object_publish(&notice->base);
	if (result == CUDA_SUCCESS)
		*callback = (CUasyncCallbackHandle)notice;
	else
		ck_emu_object_put(&notice->base);
	return result;
}

CUresult cuDeviceUnregisterAsyncNotification(CUdevice device, CUasyncCallbackHandle callback)
{
	CUresult result = ck_emu_enter_bare();
	struct notice *notice;

	if (result != CUDA_SUCCESS)
		return result;
	notice = ck_emu_object_get(callback, CK_EMU_NOTICE);
	if (!notice)
		return CUDA_ERROR_INVALID_VALUE;
	if (notice->device == device && ck_emu_object_retract(&notice->base))
		ck_emu_object_put(&notice->base);
	else
		result = CUDA_ERROR_INVALID_VALUE;
	ck_emu_object_put(&notice->base);
	return result;
}
