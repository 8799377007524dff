/*
 * server/session/driver.c - dlopen the driver library, and fill ck_driver with its functions.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cuda/open.h"
#include "server/session/driver.h"
#include "server/session/session.h"
#include "util/env.h"
#include "util/log.h"
#include "util/uuid.h"

CK_LOG_DEFINE("server");

static void *library;
static char *opened; /* its name, once all is found */

/* Functions that older drivers have under an older name, with the same arguments. */
static const struct {
	const char *name, *older;
} renamed[] = {
	{"cuEventElapsedTime_v2", "cuEventElapsedTime"},
};

static void *find_symbol(const char *name)
{
	void *symbol = dlsym(library, name);

	for (size_t i = 0; !symbol && i < sizeof(renamed) / sizeof(renamed[0]); i++) {
		if (strcmp(name, renamed[i].name) == 0)
			symbol = dlsym(library, renamed[i].older);
	}
	return symbol;
}

int cks_driver_open(const char *which, char *why, size_t size)
{
	const struct ck_driver_symbol *s;
	unsigned int missing = 0;

	if (opened && strcmp(opened, which) == 0)
		return 0; /* by the process that this one was forked from */
	library = ck_cuda_open(which);
	if (!library) {
		snprintf(why, size, "%s%s", dlerror(),
			 strcmp(which, "emu") == 0 ? " ('make -C cpu libcuda-emu.so' builds it)"
						   : "");
		return -ENOENT;
	}
	for (s = ck_driver_symbols; s->name; s++) {
		*s->slot = find_symbol(s->name);
		missing += *s->slot == NULL;
	}
	if (!ck_driver.cuInit || !ck_driver.cuDeviceGetCount || !ck_driver.cuDriverGetVersion ||
	    !ck_driver.cuCtxSetCurrent) {
		snprintf(why, size, "%s is no CUDA driver", which);
		return -ELIBBAD;
	}
	if (missing > 0)
		ck_debug("the driver lacks %u of the functions that the server knows", missing);
	free(opened);
	opened = strdup(which);
	return 0;
}

static int (*accepts_cubin(void))(void)
{
	int (*function)(void);

	*(void **)&function = dlsym(library, "ckDriverAcceptsCubin");
	return function;
}

bool cks_driver_file(struct cks_driver_file *file)
{
	struct stat st;
	Dl_info info;

	if (!ck_driver.cuInit || !dladdr(*(void **)&ck_driver.cuInit, &info) ||
	    stat(info.dli_fname, &st) < 0)
		return false;
	file->size = (uint64_t)st.st_size;
	file->changed_s = (uint64_t)st.st_mtim.tv_sec;
	file->changed_ns = (uint64_t)st.st_mtim.tv_nsec;
	return true;
}

void *cks_driver_library(void)
{
	return library;
}

bool cks_driver_emulated(void)
{
	return library && ck_cuda_emulated(library);
}

bool cks_driver_accepts_cubin(void)
{
	int (*ask)(void) = library ? accepts_cubin() : NULL;

	return !ask || ask() != 0;
}

/* Does libcuda.so.1 load and find a device? */
static bool cuda_works(char *why, size_t size)
{
	int count = 0;
	CUresult err;

	if (cks_driver_open("cuda", why, size) < 0)
		return false;
	err = ck_driver.cuInit(0);
	if (!err)
		err = ck_driver.cuDeviceGetCount(&count);
	if (err || count == 0) {
		snprintf(why, size, "libcuda.so.1: %s",
			 err ? cks_error_name(err) : "finds no device");
		return false;
	}
	snprintf(why, size, "libcuda.so.1 finds %d device%s", count, count == 1 ? "" : "s");
	return true;
}

const char *cks_driver_probe(const char *which, char *why, size_t size)
{
	char also[256];

	if (strcmp(which, "auto") != 0) {
		if (cks_driver_open(which, why, size) < 0)
			return NULL;
		snprintf(why, size, "as asked for");
		return which;
	}
	if (cuda_works(why, size))
		return "cuda";
	if (cks_driver_open("emu", also, sizeof(also)) < 0) {
		snprintf(why + strlen(why), size - strlen(why), "; %s", also);
		return NULL;
	}
	snprintf(also, sizeof(also), "%s", why);
	snprintf(why, size, "no GPU here, kernels run on the CPU (%s)", also);
	return "emu";
}

/* False: the driver does not name it, or there is no room. */
static bool add_uuid(char list[CK_DRIVER_GPUS], CUdevice device)
{
	size_t size = strlen(list);
	char text[CK_UUID_TEXT];
	CUuuid uuid;

	if (!ck_driver.cuDeviceGetUuid || ck_driver.cuDeviceGetUuid(&uuid, device))
		return false;
	ck_uuid_print((const unsigned char *)uuid.bytes, text);
	return snprintf(list + size, CK_DRIVER_GPUS - size, "%s%s", size ? "," : "", text) <
	       (int)(CK_DRIVER_GPUS - size);
}

void cks_driver_gpus(char list[CK_DRIVER_GPUS])
{
	int count = 0;
	CUresult err;

	list[0] = '\0';
	if (!ck_env_string("CUDA_VISIBLE_DEVICES"))
		return;
	err = ck_driver.cuInit(0);
	if (!err)
		err = ck_driver.cuDeviceGetCount(&count);
	if (err ? err == CUDA_ERROR_NO_DEVICE : count == 0)
		snprintf(list, CK_DRIVER_GPUS, "none");
	for (int i = 0; !err && i < count; i++) {
		if (add_uuid(list, (CUdevice)i))
			continue;
		list[0] = '\0';
		return;
	}
}

CUgraph cks_capture_graph(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	cuuint64_t id;
	CUgraph graph = NULL;
	CUresult err = CUDA_ERROR_NOT_SUPPORTED;

	if (ck_driver.cuStreamGetCaptureInfo_v2)
		err = ck_driver.cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, NULL, NULL);
	else if (ck_driver.cuStreamGetCaptureInfo_v3)
		err = ck_driver.cuStreamGetCaptureInfo_v3(stream, &status, &id, &graph, NULL, NULL,
							  NULL);
	return !err && status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? graph : NULL;
}
