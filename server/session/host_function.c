/*
 * server/session/host_function.c - functions that the client registers for the driver to call: host
 * functions and callbacks of streams, destructors of user objects, notifications of a device.
 */
#include <stdlib.h>

#include "gen/handlers.h"
#include "server/session/callback.h"
#include "server/session/locks.h"
#include "server/session/session.h"

#define CK_FUNCTION_REPEATED 1u /* in flags: the stream is captured, so graphs run it */
#define CK_FUNCTION_STATUS 2u	/* takes the stream's error: a callback */
#define CK_FUNCTION_HELD 4u	/* of the client itself: it waits for another server */

/* The stream waits for another server. */
static CUresult hold_stream(struct cks_session *s, CUstream stream, struct cks_host_call *call)
{
	CUresult err;

	cks_stream_holds_begin(&s->holds);
	err = ck_driver.cuLaunchHostFunc(stream, cks_host_call_run_held, call);
	if (err)
		cks_stream_holds_over(&s->holds);
	return err;
}

CUresult ck_serve_host_function(struct cks_request *q, ck_host_function_args *a, void *res)
{
	struct cks_host_call *call;
	CUstream stream;
	CUresult err;

	(void)res;
	if (!ck_driver.cuLaunchHostFunc || !ck_driver.cuStreamAddCallback)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_stream_find(q, a->stream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (a->flags & CK_FUNCTION_REPEATED) {
		call = cks_host_call_keep(q->session, a->callback);
		return call ? ck_driver.cuLaunchHostFunc(stream, cks_host_call_run, call)
			    : CUDA_ERROR_OUT_OF_MEMORY;
	}
	call = cks_host_call_create(q->session, a->callback);
	if (!call)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (a->flags & CK_FUNCTION_HELD)
		err = hold_stream(q->session, stream, call);
	else if (a->flags & CK_FUNCTION_STATUS)
		err = ck_driver.cuStreamAddCallback(stream, cks_host_call_run_status, call, 0);
	else
		err = ck_driver.cuLaunchHostFunc(stream, cks_host_call_run_once, call);
	if (err)
		cks_host_call_destroy(call);
	return err;
}

/* --- user objects: the driver may call the destructor in any thread, even the command thread */

struct user {
	struct cks_host_call *call;
	struct cks_session *session;
	uint64_t id;
};

static void user_gone(void *data)
{
	struct user *user = data;

	cks_handles_remove(user->session->handles, user->id);
	cks_host_call_send(user->call, CUDA_SUCCESS, 0);
	cks_host_call_destroy(user->call);
	free(user);
}

static struct user *user_create(struct cks_session *session, uint64_t id, uint64_t callback)
{
	struct user *user = malloc(sizeof(*user));

	if (!user)
		return NULL;
	*user = (struct user){cks_host_call_create(session, callback), session, id};
	if (user->call)
		return user;
	free(user);
	return NULL;
}

CUresult ck_serve_user_object(struct cks_request *q, ck_user_object_args *a,
			      ck_user_object_res *res)
{
	CUuserObject object = NULL;
	struct user *user;
	CUresult err;

	(void)res;
	if (!ck_driver.cuUserObjectCreate || !ck_driver.cuUserObjectRelease)
		return CUDA_ERROR_NOT_SUPPORTED;
	user = user_create(q->session, a->object, a->callback);
	if (!user)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = ck_driver.cuUserObjectCreate(&object, user, user_gone, a->count,
					   CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
	if (err) {
		cks_host_call_destroy(user->call);
		free(user);
		return err;
	}
	err = cks_user_put(q, a->object, object);
	if (err)
		ck_driver.cuUserObjectRelease(object, a->count);
	return err;
}

/* --- notifications: a list of the driver's handles with their calls */

struct notification {
	struct cks_host_call *call;
	CUasyncCallbackHandle handle;
	uint64_t number;
	struct notification *next;
};

static struct ck_mutex notifications_lock = CK_MUTEX(CK_RANK_NOTIFICATIONS);
static struct notification *notifications;
static _Atomic uint64_t numbers;

static void forward_notification(CUasyncNotificationInfo *info, void *data,
				 CUasyncCallbackHandle handle)
{
	struct notification *n = data;

	(void)handle;
	cks_host_call_send(n->call, (int)info->type, info->info.overBudget.bytesOverBudget);
}

static void add_notification(struct notification *n)
{
	ck_lock(&notifications_lock);
	n->next = notifications;
	notifications = n;
	ck_unlock(&notifications_lock);
}

CUresult ck_serve_notification(struct cks_request *q, ck_notification_args *a,
			       ck_notification_res *res)
{
	struct notification *n;
	CUresult err;

	if (!ck_driver.cuDeviceRegisterAsyncNotification)
		return CUDA_ERROR_NOT_SUPPORTED;
	n = calloc(1, sizeof(*n));
	if (n)
		n->call = cks_host_call_create(q->session, a->callback);
	if (!n || !n->call) {
		free(n);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	err = ck_driver.cuDeviceRegisterAsyncNotification(a->device, forward_notification, n,
							  &n->handle);
	if (err) {
		cks_host_call_destroy(n->call);
		free(n);
		return err;
	}
	res->handle = n->number = ++numbers;
	add_notification(n);
	return CUDA_SUCCESS;
}

static struct notification *take_notification(uint64_t number)
{
	struct notification **at = &notifications, *n;

	ck_lock(&notifications_lock);
	while (*at && (*at)->number != number)
		at = &(*at)->next;
	n = *at;
	if (n)
		*at = n->next;
	ck_unlock(&notifications_lock);
	return n;
}

CUresult ck_serve_notification_end(struct cks_request *q, ck_notification_end_args *a,
				   ck_notification_end_res *res)
{
	struct notification *n;
	CUresult err;

	(void)q;
	(void)res;
	if (!ck_driver.cuDeviceUnregisterAsyncNotification)
		return CUDA_ERROR_NOT_SUPPORTED;
	n = take_notification(a->handle);
	if (!n)
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuDeviceUnregisterAsyncNotification(a->device, n->handle);
	if (err) { /* the driver may still call it */
		add_notification(n);
		return err;
	}
	cks_host_call_destroy(n->call);
	free(n);
	return CUDA_SUCCESS;
}
