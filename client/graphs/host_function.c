/*
 * client/graphs/host_function.c - functions that CUDA calls: host functions and callbacks of
 * streams, destructors of user objects, notifications of devices.
 */
#include <stdlib.h>

#include "client/copy/mirror.h"
#include "client/graphs/host_function.h"
#include "client/graphs/state.h"
#include "client/objects/callback.h"
#include "client/objects/capture.h"
#include "client/link/client.h"
#include "client/wire/delivery.h"
#include "client/memory/pinned.h"

#define FUNCTION_REPEATED 1u /* flags of ck_host_function */
#define FUNCTION_STATUS 2u

/* Run a host function. In a graph, it sees the results of earlier copies, and later copies see its
 * writes. */
static void run_host_function(const struct ckc_callback *callback, int status, uint64_t value)
{
	struct ckc_exchange *x;

	(void)status;
	(void)value;
	if (!callback->persistent) {
		((CUhostFn)callback->function)(callback->data);
		return;
	}
	if (!ckc_mirror_pull(&x)) {
		ckc_session_lost(ckc_client_current(), "no bytes for a host function of a graph");
		return;
	}
	((CUhostFn)callback->function)(callback->data);
	if (!ckc_mirror_push(x))
		ckc_session_lost(ckc_client_current(), "no bytes from a host function of a graph");
}

CUresult ckc_host_function_register(CUhostFn fn, void *data, bool persistent, uint64_t *id)
{
	const struct ckc_callback callback = {
		.run = run_host_function,
		.function = (void (*)(void))fn,
		.data = data,
		.persistent = persistent,
		.in_stream = !persistent,
	};

	if (persistent)
		ckc_mirror_functions();
	return persistent ? ckc_callback_keep(&callback, id) : ckc_callback_add(&callback, id);
}

static CUresult send_function(struct ckc_context *ctx, struct ckc_stream *s, uint64_t id,
			      unsigned int flags)
{
	CUresult err = ck_wire_host_function(ctx->object.id, s ? s->object.id : 0, id, flags);

	if (err && !(flags & FUNCTION_REPEATED))
		ckc_callback_drop(id);
	return err;
}

CK_EXPORT CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	struct ckc_context *ctx;
	struct ckc_stream *s;
	bool repeated;
	uint64_t id;
	CUresult err = ckc_context_usable(&ctx);

	if (err)
		return err;
	if (!fn)
		return CUDA_ERROR_INVALID_VALUE;
	err = ckc_stream_from(hStream, &s);
	if (!err)
		err = ckc_capture_work(s);
	if (err)
		return err;
	repeated = ckc_capturing(s);
	err = ckc_host_function_register(fn, userData, repeated, &id);
	return err ? err : send_function(ctx, s, id, repeated ? FUNCTION_REPEATED : 0);
}

static void run_stream_callback(const struct ckc_callback *callback, int status, uint64_t value)
{
	(void)value;
	((CUstreamCallback)callback->function)(callback->handle, (CUresult)status, callback->data);
}

CK_EXPORT CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
				       unsigned int flags)
{
	const struct ckc_callback entry = {
		.run = run_stream_callback,
		.function = (void (*)(void))callback,
		.data = userData,
		.handle = hStream,
		.on_loss = true,
		.in_stream = true,
	};
	struct ckc_context *ctx;
	struct ckc_stream *s;
	uint64_t id;
	CUresult err = ckc_context_usable(&ctx);

	if (err)
		return err;
	if (flags || !callback)
		return CUDA_ERROR_INVALID_VALUE;
	err = ckc_stream_from(hStream, &s);
	if (!err)
		err = ckc_capture_wait(s);
	if (!err)
		err = ckc_callback_add(&entry, &id);
	return err ? err : send_function(ctx, s, id, FUNCTION_STATUS);
}

/* --- user objects */

/* The last reference is gone: the handle is now free. */
static void run_destructor(const struct ckc_callback *callback, int status, uint64_t value)
{
	(void)status;
	(void)value;
	ckc_object_free(callback->handle);
	((CUhostFn)callback->function)(callback->data);
}

CK_EXPORT CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
				      unsigned int initialRefcount, unsigned int flags)
{
	struct ckc_callback entry = {
		.run = run_destructor,
		.function = (void (*)(void))destroy,
		.data = ptr,
	};
	struct ckc_object *object;
	uint64_t id;
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!object_out || !destroy || initialRefcount == 0 || initialRefcount > INT32_MAX ||
	    flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	object = ckc_object_new(CK_OBJECT_USER, NULL);
	if (!object)
		return CUDA_ERROR_OUT_OF_MEMORY;
	entry.handle = object;
	err = ckc_callback_add(&entry, &id);
	if (!err) {
		err = ck_wire_user_object(0, object->id, id, initialRefcount);
		if (err)
			ckc_callback_drop(id);
	}
	if (err)
		ckc_object_free(object);
	else
		*object_out = (CUuserObject)object;
	return err;
}

/* --- notifications */

struct ck_notification {
	uint64_t callback; /* the client's id of it */
	uint64_t handle;   /* the server's number for it */
	CUdevice device;
	struct ck_notification *next;
};

static void run_notification(const struct ckc_callback *callback, int status, uint64_t value)
{
	CUasyncNotificationInfo info = {.type = (CUasyncNotificationType)status};

	info.info.overBudget.bytesOverBudget = value;
	((CUasyncCallback)callback->function)(&info, callback->data, callback->handle);
}

static CUresult register_notification(struct ck_notification *n, CUasyncCallback function,
				      void *data)
{
	const struct ckc_callback entry = {
		.run = run_notification,
		.function = (void (*)(void))function,
		.data = data,
		.handle = n,
		.persistent = true,
	};
	int ordinal;
	CUresult err = ckc_device_id(n->device, &ordinal);

	if (!err)
		err = ckc_callback_add(&entry, &n->callback);
	if (err)
		return err;
	err = ck_wire_notification(0, ordinal, n->callback, &n->handle);
	if (err)
		ckc_callback_drop(n->callback);
	return err;
}

CK_EXPORT CUresult cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback callbackFunc,
						     void *userData,
						     CUasyncCallbackHandle *callback)
{
	struct ckc_graphs *g = ckc_client_current()->graphs;
	struct ck_notification *n;
	CUresult err = ckc_session_check();

	if (err)
		return err;
	if (!callbackFunc || !callback)
		return CUDA_ERROR_INVALID_VALUE;
	n = calloc(1, sizeof(*n));
	if (!n)
		return CUDA_ERROR_OUT_OF_MEMORY;
	n->device = device;
	err = register_notification(n, callbackFunc, userData);
	if (err) {
		free(n);
		return err;
	}
	ck_lock(&g->notifications_lock);
	n->next = g->notifications;
	g->notifications = n;
	ck_unlock(&g->notifications_lock);
	*callback = (CUasyncCallbackHandle)n;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuDeviceUnregisterAsyncNotification(CUdevice device,
						       CUasyncCallbackHandle callback)
{
	struct ckc_graphs *g = ckc_client_current()->graphs;
	struct ck_notification **at = &g->notifications, *n;
	int ordinal;
	CUresult err = ckc_session_check();

	if (!err)
		err = ckc_device_id(device, &ordinal);
	if (err)
		return err;
	ck_lock(&g->notifications_lock);
	while (*at && ((CUasyncCallbackHandle)*at != callback || (*at)->device != device))
		at = &(*at)->next;
	n = *at;
	if (n)
		*at = n->next;
	ck_unlock(&g->notifications_lock);
	if (!n)
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_wire_notification_end(0, ordinal, n->handle);
	ckc_callback_drop(n->callback);
	free(n);
	return err;
}
