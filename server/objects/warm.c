/*
 * server/objects/warm.c - primary contexts made before a client needs them; see warm.h.
 *
 * The client must notice nothing except the saved time. Its first retain takes the context over
 * with its single reference, so that state, release and reset behave as usual. A call whose effect
 * the existing context would change gives the context up first: flags other than scheduling flags,
 * and contexts of another kind, which would take memory a second time.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cricket.h"
#include "gen/driver.h"
#include "server/session/session.h"
#include "server/session/locks.h"
#include "server/objects/warm.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

/* A client that has not used its context by now may only query the GPU: a monitor must not hold GPU
 * memory. */
#define CK_WARM_SECONDS 10

/* Held over calls of the driver: who wants a context that is being given up waits for that. */
static struct ck_mutex held_lock = CK_MUTEX(CK_RANK_WARM);
static CUcontext held[CK_MAX_DEVICES];

/* Leave a GPU in exclusive mode to the processes that use it. */
static bool is_shared(CUdevice device)
{
	int mode = 0;

	return !ck_driver.cuDeviceGetAttribute ||
	       ck_driver.cuDeviceGetAttribute(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, device) ||
	       mode == CU_COMPUTEMODE_DEFAULT;
}

static void make_context(CUdevice device)
{
	CUcontext context = NULL;
	CUresult err = CUDA_ERROR_INVALID_DEVICE;

	if (device < CK_MAX_DEVICES && (held[device] || !is_shared(device)))
		return; /* listed twice, or in exclusive mode */
	if (device < CK_MAX_DEVICES)
		err = ck_driver.cuDevicePrimaryCtxRetain(&context, device);
	if (err)
		ck_warn("no warm context of device %d: %s", device, cks_error_name(err));
	else
		held[device] = context;
}

void cks_warm_up(const char *devices)
{
	char *end;

	if (strcmp(devices, "none") == 0 || !ck_driver.cuDevicePrimaryCtxRetain ||
	    !ck_driver.cuDevicePrimaryCtxRelease_v2)
		return;
	ck_lock(&held_lock);
	for (const char *at = devices; *at; at = *end ? end + 1 : end) {
		long device = strtol(at, &end, 10);

		if (end > at)
			make_context(device < CK_MAX_DEVICES ? (CUdevice)device : CK_MAX_DEVICES);
	}
	ck_unlock(&held_lock);
}

static bool context_works(CUcontext context)
{
	CUcontext popped;
	CUresult err;

	if (!ck_driver.cuCtxPushCurrent_v2 || !ck_driver.cuCtxPopCurrent_v2 ||
	    !ck_driver.cuCtxSynchronize)
		return true;
	if (ck_driver.cuCtxPushCurrent_v2(context))
		return false;
	err = ck_driver.cuCtxSynchronize();
	return !ck_driver.cuCtxPopCurrent_v2(&popped) && !err;
}

bool cks_warm_sound(void)
{
	bool sound = true;

	ck_lock(&held_lock);
	for (int i = 0; i < CK_MAX_DEVICES && sound; i++)
		sound = !held[i] || context_works(held[i]);
	ck_unlock(&held_lock);
	return sound;
}

bool cks_warm_take(CUdevice device, CUcontext *context)
{
	bool taken = false;

	ck_lock(&held_lock);
	if (device >= 0 && device < CK_MAX_DEVICES && held[device]) {
		*context = held[device];
		held[device] = NULL;
		taken = true;
	}
	ck_unlock(&held_lock);
	return taken;
}

bool cks_warm_drop(CUdevice device)
{
	bool dropped = false;
	CUresult err;

	ck_lock(&held_lock);
	for (int i = 0; i < CK_MAX_DEVICES; i++) {
		if (!held[i] || (device != CK_WARM_ALL && device != i))
			continue;
		held[i] = NULL;
		dropped = true;
		err = ck_driver.cuDevicePrimaryCtxRelease_v2(i);
		if (err)
			ck_warn("the warm context of device %d: %s", i, cks_error_name(err));
	}
	ck_unlock(&held_lock);
	return dropped;
}

static void *expire_contexts(void *data)
{
	const struct timespec time = {.tv_sec = CK_WARM_SECONDS};
	struct cks_gate *gate = data;
	struct cks_pass pass = {.turns = 0};

	nanosleep(&time, NULL);
	cks_gate_join(gate, &pass);
	cks_gate_uncount(&pass);
	cks_gate_enter_silently(gate, &pass);
	if (cks_warm_drop(CK_WARM_ALL))
		ck_debug("the client has not used its warm context: given up");
	cks_gate_leave_uncounted(&pass);
	cks_gate_part(gate, &pass);
	return NULL;
}

int cks_warm_expire(struct cks_gate *gate)
{
	pthread_t thread;
	bool any = false;
	int ret;

	ck_lock(&held_lock);
	for (int i = 0; i < CK_MAX_DEVICES; i++)
		any |= held[i] != NULL;
	ck_unlock(&held_lock);
	if (!any)
		return 0;
	ret = -pthread_create(&thread, NULL, expire_contexts, gate);
	if (ret == 0)
		pthread_detach(thread);
	return ret;
}
