/*
 * server/helpers/gpu.c - see gpu.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gen/driver.h"
#include "server/helpers/gpu.h"
#include "server/session/device_map.h"
#include "server/session/driver.h"
#include "server/session/session.h"
#include "util/util.h"
#include "util/uuid.h"

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
		ck_uuid_print((const unsigned char *)uuid.bytes, out->uuid);
	return err;
}

static CUresult describe_gpus(struct cks_manifest_gpu *gpu)
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
	err = describe_gpus(gpu);
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

#define CK_VISIBLE "CUDA_VISIBLE_DEVICES"

/* The lists of a machine. */
struct lists {
	struct cks_manifest_gpu all, visible, allowed;
};

static int read_lists(const char *driver, const char *allowed, struct lists *l, struct cks_why *why)
{
	bool some = getenv(CK_VISIBLE) != NULL;
	int ret = 0;

	if (some)
		ret = cks_gpu_describe(driver, &l->visible, why);
	if (ret == 0 && allowed[0]) {
		setenv(CK_VISIBLE, allowed, 1);
		ret = cks_gpu_describe(driver, &l->allowed, why);
	}
	unsetenv(CK_VISIBLE);
	if (ret == 0)
		ret = open_and_describe(driver, &l->all, why);
	if (!some)
		l->visible = l->all;
	if (!allowed[0])
		l->allowed = l->visible;
	return ret;
}

int cks_gpu_describe_all(const char *driver, struct cks_manifest_gpu *gpu, struct cks_why *why)
{
	struct cks_manifest_gpu *all;
	int ret = cks_gpu_describe(driver, gpu, why);

	if (ret < 0 || !getenv(CK_VISIBLE))
		return ret;
	all = calloc(1, sizeof(*all));
	unsetenv(CK_VISIBLE);
	ret = all ? cks_gpu_describe(driver, all, why) : cks_why_set(why, ENOMEM, "%m");
	for (size_t i = 0; ret == 0 && i < all->count; i++) {
		if (!cks_manifest_names(gpu, all->devices[i].uuid))
			gpu->hidden[gpu->hidden_count++] = all->devices[i];
	}
	free(all);
	return ret;
}

int cks_gpu_machine(const char *driver, const char *allowed, struct cks_machine *machine,
		    struct cks_why *why)
{
	struct lists *l = calloc(1, sizeof(*l));
	int ret = l ? read_lists(driver, allowed, l, why) : cks_why_set(why, ENOMEM, "%m");

	if (ret == 0)
		ret = cks_machine_fill(machine, &l->all, &l->visible, &l->allowed, why);
	free(l);
	return ret;
}
