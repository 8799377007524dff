/*
 * launcher/driver/driver.c - dlopen of a driver library, and a context on one of its devices.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/open.h"
#include "launcher/driver/driver.h"
#include "launcher/driver/driver_log.h"
#include "util/log.h"

CK_LOG_DEFINE("launcher");

#define ATTRIBUTE_MAJOR 75 /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR */
#define ATTRIBUTE_MINOR 76

/* Fill the table. False: it is no CUDA driver. */
static bool find_functions(struct ckl_driver *driver)
{
	bool found = true;

#define CK_FIND(name, field)                                                                       \
	*(void **)&driver->field = dlsym(driver->library, #name);                                  \
	found = found && driver->field;
#define CK_TRY(name, field) *(void **)&driver->field = dlsym(driver->library, #name);
	CK_DRIVER_FUNCTIONS(CK_FIND, CK_TRY)
#undef CK_FIND
#undef CK_TRY
	return found;
}

static int open_driver(struct ckl_driver *driver, const char *which, struct ckl_fail *fail)
{
	driver->library = ck_cuda_open(strcmp(which, "auto") == 0 ? "cuda" : which);
	if (!driver->library)
		return ckl_fail(
			fail, CK_EXIT_SERVICE, "driver", "NO_DRIVER", "%s%s", dlerror(),
			strcmp(which, "cuda") == 0
				? "; without an NVIDIA driver use --driver emu or --connect HOST"
				: "");
	if (!find_functions(driver))
		return ckl_fail(fail, CK_EXIT_SERVICE, "driver", "NO_DRIVER",
				"%s is not a CUDA driver library", which);
	return 0;
}

/* The result of cuInit and cuDeviceGetCount; having no device is an error too. */
static CUresult init_driver(struct ckl_driver *driver, int *count)
{
	CUresult result = driver->init(0);

	if (!result)
		result = driver->device_count(count);
	return !result && *count == 0 ? CUDA_ERROR_NO_DEVICE : result;
}

/*
 * With "auto", a machine that has no GPU gets the emulated one. A driver that is broken is an
 * error, and so is a server that was requested and cannot be reached.
 */
static bool falls_back(const char *which, const struct ckl_driver *driver, CUresult result)
{
	if (strcmp(which, "auto") != 0 || getenv("REMOTE_GPU_ADDRESS"))
		return false;
	return !driver->library || result == CUDA_ERROR_NO_DEVICE ||
	       result == CUDA_ERROR_STUB_LIBRARY;
}

static int make_context(struct ckl_driver *driver, int ordinal, struct ckl_fail *fail)
{
	int major = 0, minor = 0;
	CUcontext context;
	CUresult result = driver->device_get(&driver->device, ordinal);

	if (!result)
		result = driver->retain(&context, driver->device);
	if (!result)
		result = driver->set_current(context);
	if (!result)
		result = driver->device_attribute(&major, ATTRIBUTE_MAJOR, driver->device);
	if (!result)
		result = driver->device_attribute(&minor, ATTRIBUTE_MINOR, driver->device);
	if (!result)
		result = driver->version(&driver->release);
	if (result)
		return ckl_fail_cuda(fail, CK_EXIT_SERVICE, "driver", result,
				     "the device's context");
	driver->emulated = ck_cuda_emulated(driver->library);
	driver->sm = (unsigned)(10 * major + minor);
	return 0;
}

/* Open and initialise it. *@result is that of cuInit. */
static int begin_driver(struct ckl_driver *driver, const char *which, int *count, CUresult *result,
			struct ckl_fail *fail)
{
	int ret = open_driver(driver, which, fail);

	if (ret == 0)
		*result = init_driver(driver, count);
	if ((ret == 0 && !*result) || !falls_back(which, driver, *result))
		return ret;
	ck_info("no GPU here: the emulated one runs the kernels");
	ckl_fail_clear(fail);
	ret = open_driver(driver, "emu", fail);
	if (ret == 0)
		*result = init_driver(driver, count);
	return ret;
}

static int start_driver(struct ckl_driver *driver, const char *which, int device,
			struct ckl_fail *fail)
{
	CUresult result = CUDA_SUCCESS;
	int count = 0, ret;

	ret = begin_driver(driver, which, &count, &result, fail);
	if (ret < 0)
		return ret;
	if (result)
		return ckl_fail_cuda(fail, CK_EXIT_SERVICE, "driver", result, "cuInit");
	if (device >= count)
		return ckl_fail(fail, CK_EXIT_SERVICE, "driver", "CUDA_ERROR_INVALID_DEVICE",
				"there is no device %d; there are %d", device, count);
	return make_context(driver, device, fail);
}

int ckl_driver_start(struct ckl_driver *driver, const char *which, int device,
		     struct ckl_fail *fail)
{
	struct ckl_driver_log heard;
	int ret;

	*driver = (struct ckl_driver){0};
	ckl_driver_log_begin(&heard);
	ret = start_driver(driver, which, device, fail);
	ckl_driver_log_end(&heard);
	if (ret < 0)
		ckl_fail_add(fail, heard.line);
	return ret;
}
