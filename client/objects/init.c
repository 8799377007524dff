/*
 * client/objects/init.c - cuInit, and the driver version, which may be queried before it.
 */
#include "client/objects/state.h"
#include "client/link/hooks.h"
#include "client/link/session_list.h"
#include "client/wire/servers.h"

/* Read CUDA_VISIBLE_DEVICES here, not when NVML or cuDriverGetVersion connected. */
CK_EXPORT CUresult cuInit(unsigned int flags)
{
	struct ckc_client *c = ckc_client_root();
	CUresult err;

	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	err = ckc_servers_open();
	if (err)
		return err;
	ck_lock(&c->objects->devices_lock);
	if (!c->gpus)
		err = ckc_devices_build();
	if (!err && c->gpu_count == 0)
		err = CUDA_ERROR_NO_DEVICE;
	for (unsigned int i = 0; i < ckc_servers_count() && !err; i++)
		ckc_server_session(i)->initialized = true;
	ck_unlock(&c->objects->devices_lock);
	if (!err)
		ckc_each_hook(ready, h) h->run(c);
	return err;
}

/* Works before cuInit. The version is the server's, so this call may connect. */
CK_EXPORT CUresult cuDriverGetVersion(int *driverVersion)
{
	struct ckc_client *c = ckc_client_root();
	CUresult err;

	if (!driverVersion)
		return CUDA_ERROR_INVALID_VALUE;
	err = c->driver_version ? CUDA_SUCCESS : ckc_servers_open();
	*driverVersion = c->driver_version ? c->driver_version : CK_CUDA_VERSION_ON_TABLE;
	return c->driver_version || err != CUDA_ERROR_NOT_INITIALIZED ? CUDA_SUCCESS : err;
}
