/*
 * server/processes/mps_client.c - see mps_client.h.
 */
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "cuda/mps.h"
#include "gen/driver.h"
#include "server/processes/mps_client.h"

#define CK_WAIT_MS 20000 /* for NVIDIA MPS to start, and to take a client */
#define CK_LOOK_MS 5	 /* between two looks */
#define CK_TRY_MS 100

static void sleep_ms(long ms)
{
	const struct timespec step = {.tv_nsec = ms * 1000000L};

	nanosleep(&step, NULL);
}

/* Without its daemon, the driver would share the GPU in another way, and not say so. The supervisor
 * ends one that does not start, and removes its folder. False: there is none. */
static bool await_daemon(const char *folder)
{
	for (int ms = 0; !ck_cuda_mps_listens(folder); ms += CK_LOOK_MS) {
		if (ms > CK_WAIT_MS || access(folder, F_OK) < 0)
			return false;
		sleep_ms(CK_LOOK_MS);
	}
	return true;
}

/* NVIDIA's server takes no client while it starts, nor between a fault and the end of all clients
 * that it has had then. */
CUresult cks_mps_client_init(void)
{
	const char *folder = ck_cuda_mps_folder();
	CUresult err;

	if (!folder)
		return ck_driver.cuInit(0);
	if (!await_daemon(folder))
		return CUDA_ERROR_MPS_CONNECTION_FAILED;
	err = ck_driver.cuInit(0);
	for (int ms = 0; err == CUDA_ERROR_MPS_SERVER_NOT_READY && ms < CK_WAIT_MS;
	     ms += CK_TRY_MS) {
		sleep_ms(CK_TRY_MS);
		err = ck_driver.cuInit(0);
	}
	/* if the daemon has ended meanwhile, the driver has begun without it */
	return !err && !ck_cuda_mps_listens(folder) ? CUDA_ERROR_MPS_CONNECTION_FAILED : err;
}

const char *cks_mps_client_hint(CUresult err)
{
	if (err == CUDA_ERROR_MPS_CONNECTION_FAILED)
		return ": NVIDIA MPS, which the policy asks for, did not start; the server's log "
		       "says why";
	if (err == CUDA_ERROR_MPS_SERVER_NOT_READY)
		return ": after a fault, other sessions of this identity have to end";
	return "";
}
