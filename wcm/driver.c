/*
 * wcm/driver.c - opening the CUDA driver; see driver.h.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "cuda/open.h"
#include "util/log.h"
#include "wcm/driver.h"
#include "wcm/wcm.h"

CK_LOG_DEFINE("wcm");

static struct ck_wcm_driver driver;
static bool usable;

static bool find_all(void *library)
{
	bool found = true;

#define FIND(name)                                                                                 \
	*(void **)&driver.name = dlsym(library, #name);                                            \
	if (!driver.name) {                                                                        \
		ck_err("the CUDA driver has no " #name);                                           \
		found = false;                                                                     \
	}
	CK_WCM_DRIVER_FUNCTIONS(FIND)
#undef FIND
	return found;
}

static void open_driver(void)
{
	CUresult err;
	void *library;

	if (!ck_cuda_find("cuIpcOpenMemHandle_v2", &library)) {
		ck_err("no CUDA driver: %s", dlerror());
		return;
	}
	if (!find_all(library))
		return;
	err = driver.cuInit(0);
	if (!err)
		err = driver.cuDeviceGetCount(&driver.device_count);
	usable = !err && driver.device_count > 0;
	if (!usable)
		ck_err("the CUDA driver finds no device (error %d)", (int)err);
}

const struct ck_wcm_driver *ck_wcm_driver(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, open_driver);
	return usable ? &driver : NULL;
}

int ck_wcm_status_of(CUresult err, const char *what)
{
	if (err == CUDA_SUCCESS)
		return WCM_OK;
	if (err == CUDA_ERROR_OUT_OF_MEMORY)
		return WCM_ENOMEM;
	ck_err("%s: CUDA error %d", what, (int)err);
	switch (err) {
	case CUDA_ERROR_INVALID_VALUE:
		return WCM_EINVAL;
	case CUDA_ERROR_NOT_SUPPORTED:
		return WCM_ENOTSUP;
	case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
	case CUDA_ERROR_INVALID_DEVICE:
		return WCM_ENOPEER;
	default:
		return WCM_EIO;
	}
}
