/*
 * client/objects/init.c - cuInit, and the version, which may be asked for before it.
 */
#include <pthread.h>

#include "client/wire/client.h"
#include "client/wire/hooks.h"

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER; /* building ck_client_current()->gpus, once */

static void in_child(struct ck_client *c)
{
	(void)c;
	pthread_mutex_init(&devices_lock, NULL);
}
CK_ON_FORK(in_child);

/* Read CUDA_VISIBLE_DEVICES here, not when NVML or cuDriverGetVersion connected. */
CK_EXPORT CUresult cuInit(unsigned int flags)
{
	CUresult err;

	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_session_open(ck_client_current());
	if (err)
		return err;
	pthread_mutex_lock(&devices_lock);
	if (!ck_client_current()->gpus)
		err = ck_devices_build();
	if (!err && ck_client_current()->gpu_count == 0)
		err = CUDA_ERROR_NO_DEVICE;
	if (!err)
		ck_client_current()->initialized = true;
	pthread_mutex_unlock(&devices_lock);
	return err;
}

/* Works before cuInit: the version is the server's, so this may be what connects. */
CK_EXPORT CUresult cuDriverGetVersion(int *driverVersion)
{
	CUresult err;

	if (!driverVersion)
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_client_current()->driver_version ? CUDA_SUCCESS : ck_session_open(ck_client_current());
	*driverVersion = ck_client_current()->driver_version ? ck_client_current()->driver_version :
						    CK_CUDA_VERSION_ON_TABLE;
	return ck_client_current()->driver_version || err != CUDA_ERROR_NOT_INITIALIZED ? CUDA_SUCCESS : err;
}
