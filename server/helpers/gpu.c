/*
 * server/helpers/gpu.c - see gpu.h.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gen/driver.h"
#include "server/helpers/gpu.h"
#include "server/session/driver.h"
#include "server/session/session.h"
#include "util/util.h"

/* As nvidia-smi prints it. */
static void print_uuid(const CUuuid *uuid, char *out, size_t size)
{
	const unsigned char *b = (const unsigned char *)uuid->bytes;

	snprintf(out, size,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		 b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
		 b[14], b[15]);
}

static CUresult describe_device(int ordinal, struct cks_manifest_device *out)
{
	CUdevice device;
	CUuuid uuid;
	CUresult err = ck_driver.cuDeviceGet(&device, ordinal);

	if (!err)
		err = ck_driver.cuDeviceGetName(out->name, sizeof(out->name) - 1, device);
	if (!err)
		err = ck_driver.cuDeviceGetUuid_v2(&uuid, device);
	if (!err)
		print_uuid(&uuid, out->uuid, sizeof(out->uuid));
	return err;
}

static CUresult describe(struct cks_manifest_gpu *gpu)
{
	CUresult err = ck_driver.cuInit(0);
	int count = 0;

	if (!err)
		err = ck_driver.cuDriverGetVersion(&gpu->version);
	if (!err)
		err = ck_driver.cuDeviceGetCount(&count);
	gpu->count = (size_t)ck_min(ck_max(count, 0), CK_MANIFEST_DEVICES);
	for (size_t i = 0; i < gpu->count && !err; i++)
		err = describe_device((int)i, &gpu->devices[i]);
	return err;
}

static int open_and_describe(const char *driver, struct cks_manifest_gpu *gpu, struct cks_why *why)
{
	struct utsname own;
	char reason[256];
	CUresult err;

	snprintf(gpu->machine, sizeof(gpu->machine), "%.31s", uname(&own) == 0 ? own.machine : "");
	snprintf(gpu->driver, sizeof(gpu->driver), "%s", driver);
	if (cks_driver_open(driver, reason, sizeof(reason)) < 0)
		return cks_why_set(why, ENODEV, "driver %s: %s", driver, reason);
	if (!ck_driver.cuDeviceGetCount || !ck_driver.cuDeviceGet || !ck_driver.cuDeviceGetName ||
	    !ck_driver.cuDeviceGetUuid_v2 || !ck_driver.cuDriverGetVersion)
		return cks_why_set(why, ENODEV, "driver %s: too old for checkpoints", driver);
	err = describe(gpu);
	return err ? cks_why_set(why, ENODEV, "driver %s: %s", driver, cks_error_name(err)) : 0;
}

/* The child fills it in. */
struct answer {
	int ret;
	struct cks_why why;
	struct cks_manifest_gpu gpu;
};

/* In a child: the driver keeps the GPU open as long as the process lives. */
int cks_gpu_describe(const char *driver, struct cks_manifest_gpu *gpu, struct cks_why *why)
{
	struct answer *answer = mmap(NULL, sizeof(*answer), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child;
	int ret;

	if (answer == MAP_FAILED)
		return cks_why_set(why, errno, "driver %s: %m", driver);
	answer->ret = cks_why_set(&answer->why, ENODEV, "driver %s: it crashed", driver);
	child = fork();
	if (child == 0) {
		answer->ret = open_and_describe(driver, &answer->gpu, &answer->why);
		_exit(0);
	}
	if (child < 0)
		answer->ret = cks_why_set(&answer->why, errno, "driver %s: %m", driver);
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	ret = answer->ret;
	*gpu = answer->gpu;
	*why = answer->why;
	munmap(answer, sizeof(*answer));
	return ret;
}
