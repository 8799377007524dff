/*
 * client/nvml/nvml.c - core of NVML: start and end, handles, errors, old versions of structures.
 *
 * NVML is in the same shared object as the driver and uses its session: a program that uses both is
 * one client of the server. cpu/libnvidia-ml.so.1 is only a second name for this object, see
 * client/wire/library_names.c.
 */
#include <stdatomic.h>
#include <string.h>

#include "client/nvml/nvml.h"
#include "client/nvml/state.h"
#include "client/wire/servers.h"
#include "client/link/hooks.h"
#include "gen/nvml_api.h"
#include "libcuda/libcuda.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("client");

#define HANDLES 1024 /* of a server: GPUs and their instances; also the server's limit */

/* Per process, as addresses are. */
static char handles[CK_SERVERS_MAX][HANDLES]; /* a device's handle is the address of its byte */
static _Atomic unsigned int highest[CK_SERVERS_MAX]; /* highest number that each server has used */
/* Of a thread: the session of the device that its call has named. */
static __thread const struct ckc_client *named __attribute__((tls_model("initial-exec")));

CK_EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	return ck_nvml_error_text((unsigned int)result);
}

/* Translate an error of the session to NVML's. */
static nvmlReturn_t from_driver(CUresult err)
{
	switch (err) {
	case CUDA_SUCCESS:
		return NVML_SUCCESS;
	case CUDA_ERROR_NOT_PERMITTED:
		return NVML_ERROR_NO_PERMISSION;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return NVML_ERROR_MEMORY;
	case CUDA_ERROR_NOT_SUPPORTED:
		return NVML_ERROR_FUNCTION_NOT_FOUND;
	case CUDA_ERROR_DEVICE_UNAVAILABLE:
		return NVML_ERROR_GPU_IS_LOST;
	case CUDA_ERROR_NOT_INITIALIZED: /* the child of a process with a session */
	case CUDA_ERROR_DEINITIALIZED:
		return NVML_ERROR_UNINITIALIZED;
	default:
		return NVML_ERROR_UNKNOWN;
	}
}

nvmlReturn_t ckc_nvml_enter(void)
{
	const struct ckc_client *c = ckc_client_root();

	if (atomic_load_explicit(&c->nvml->initialized, memory_order_relaxed) == 0)
		return NVML_ERROR_UNINITIALIZED;
	named = NULL;
	if (unlikely(ckc_many)) {
		ckc_route_living();
		c = ckc_client_current();
	}
	switch (atomic_load_explicit(&c->state, memory_order_relaxed)) {
	case CK_STATE_READY:
		return NVML_SUCCESS;
	case CK_STATE_LOST:
		return NVML_ERROR_GPU_IS_LOST;
	default:
		return NVML_ERROR_UNINITIALIZED;
	}
}

/* The flags request a start without GPUs, or without attaching to them; this start does neither. */
CK_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	struct ckc_client *c = ckc_client_root();
	nvmlReturn_t ret;
	CUresult err;

	(void)flags;
	ck_lock(&c->nvml->lock);
	err = ckc_servers_open();
	ret = err == CUDA_ERROR_NO_DEVICE || err == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
		      ? NVML_ERROR_DRIVER_NOT_LOADED
		      : from_driver(err);
	if (!err)
		c->nvml->initialized++;
	ck_unlock(&c->nvml->lock);
	return ret;
}

CK_EXPORT nvmlReturn_t nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

CK_EXPORT nvmlReturn_t nvmlInit(void)
{
	return nvmlInitWithFlags(0);
}

CK_EXPORT nvmlReturn_t nvmlShutdown(void)
{
	struct ckc_client *c = ckc_client_root();
	nvmlReturn_t ret = NVML_SUCCESS;

	ck_lock(&c->nvml->lock);
	if (c->nvml->initialized == 0)
		ret = NVML_ERROR_UNINITIALIZED;
	else
		c->nvml->initialized--;
	ck_unlock(&c->nvml->lock);
	return ret;
}

/* A forked child starts NVML anew, as with the real library. */
static void in_child(struct ckc_client *c)
{
	ck_mutex_renew(&c->nvml->lock);
	c->nvml->initialized = 0;
}
CK_ON_FORK(in_child);

nvmlReturn_t ckc_nvml_ask(uint32_t proc, void *args, void *res, const int *nvml)
{
	CUresult err = ckc_call(proc, args, res, NULL);

	return err ? from_driver(err) : (nvmlReturn_t)*nvml;
}

nvmlReturn_t ckc_nvml_device_id(nvmlDevice_t device, unsigned int *id)
{
	uintptr_t offset = (uintptr_t)device - (uintptr_t)handles;
	const struct ckc_client *c;
	unsigned int server;

	if (!device || offset >= sizeof(handles))
		return NVML_ERROR_INVALID_ARGUMENT;
	server = (unsigned int)(offset / HANDLES);
	*id = (unsigned int)(offset % HANDLES);
	if (*id == 0 || *id > highest[server])
		return NVML_ERROR_INVALID_ARGUMENT;
	ckc_route(ckc_server_session(server));
	c = ckc_client_current();
	if (named && named != c)
		return NVML_ERROR_NOT_SUPPORTED;
	named = c;
	return NVML_SUCCESS;
}

nvmlDevice_t ckc_nvml_device(unsigned int id)
{
	unsigned int server = ckc_client_current()->index;

	if (id == 0 || id >= HANDLES)
		return NULL;
	ck_atomic_lift(&highest[server], id);
	return (nvmlDevice_t)(void *)&handles[server][id];
}

size_t ckc_nvml_size(const void *versioned)
{
	unsigned int word;

	memcpy(&word, versioned, sizeof(word));
	return word & 0xffffff;
}

void ckc_nvml_bytes(void *to, size_t room, const void *from, size_t size)
{
	if (to && size > 0)
		memcpy(to, from, ck_min(room, size));
}

nvmlReturn_t ckc_nvml_text(char *to, size_t room, const char *from, size_t size)
{
	if (size > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	if (size > 0)
		memcpy(to, from, size);
	return NVML_SUCCESS;
}

nvmlReturn_t ckc_nvml_refused(const char *name, nvmlReturn_t code, bool *told)
{
	nvmlReturn_t err = ckc_nvml_enter();

	if (err)
		return err;
	if (!__atomic_exchange_n(told, true, __ATOMIC_RELAXED))
		ck_debug("%s is not made: %s", name, nvmlErrorString(code));
	return code;
}

nvmlReturn_t ck_libcuda_nvml_enter(void)
{
	return ckc_nvml_enter();
}

nvmlReturn_t ck_libcuda_nvml_device(nvmlDevice_t device)
{
	unsigned int id;

	return ckc_nvml_device_id(device, &id);
}

CK_EXPORT nvmlReturn_t nvmlInternalGetExportTable(const void **ppExportTable,
						  const void *pExportTableId)
{
	if (!ppExportTable || !pExportTableId)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ppExportTable = ckc_nvml_table(pExportTableId);
	return *ppExportTable ? NVML_SUCCESS : NVML_ERROR_FUNCTION_NOT_FOUND;
}
