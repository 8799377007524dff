/*
 * tests/test_apps/nvml.c - what programs ask NVML, beside the driver: both must tell the same,
 * wrong calls are refused as NVML refuses them, and memory that is taken is seen.
 *
 * Built twice: nvml finds the library by dlopen, as nearly everybody does; nvml_linked (LINKED,
 * with STUB) needs it at start. "fork" as an argument: NVML before a fork, the driver after it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/nvml.h"
#include "cuda/types.h"

#define CALLS(X)                                                                                   \
	X(nvmlReturn_t, nvmlInit_v2, (void))                                                       \
	X(nvmlReturn_t, nvmlShutdown, (void))                                                      \
	X(const char *, nvmlErrorString, (nvmlReturn_t))                                           \
	X(nvmlReturn_t, nvmlSystemGetDriverVersion, (char *, unsigned int))                        \
	X(nvmlReturn_t, nvmlSystemGetCudaDriverVersion_v2, (int *))                                \
	X(nvmlReturn_t, nvmlDeviceGetCount_v2, (unsigned int *))                                   \
	X(nvmlReturn_t, nvmlDeviceGetHandleByIndex_v2, (unsigned int, nvmlDevice_t *))             \
	X(nvmlReturn_t, nvmlDeviceGetHandleByUUID, (const char *, nvmlDevice_t *))                 \
	X(nvmlReturn_t, nvmlDeviceGetHandleByPciBusId_v2, (const char *, nvmlDevice_t *))          \
	X(nvmlReturn_t, nvmlDeviceGetName, (nvmlDevice_t, char *, unsigned int))                   \
	X(nvmlReturn_t, nvmlDeviceGetUUID, (nvmlDevice_t, char *, unsigned int))                   \
	X(nvmlReturn_t, nvmlDeviceGetIndex, (nvmlDevice_t, unsigned int *))                        \
	X(nvmlReturn_t, nvmlDeviceGetPciInfo_v3, (nvmlDevice_t, struct nvmlPciInfo_t *))           \
	X(nvmlReturn_t, nvmlDeviceGetMemoryInfo, (nvmlDevice_t, struct nvmlMemory_t *))            \
	X(nvmlReturn_t, nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t, struct nvmlMemory_v2_t *))      \
	X(nvmlReturn_t, nvmlDeviceGetUtilizationRates, (nvmlDevice_t, struct nvmlUtilization_t *)) \
	X(nvmlReturn_t, nvmlDeviceGetTemperature, (nvmlDevice_t, int, unsigned int *))             \
	X(nvmlReturn_t, nvmlDeviceGetPowerUsage, (nvmlDevice_t, unsigned int *))                   \
	X(nvmlReturn_t, nvmlDeviceGetCudaComputeCapability, (nvmlDevice_t, int *, int *))          \
	X(nvmlReturn_t, nvmlDeviceGetFieldValues, (nvmlDevice_t, int, struct nvmlFieldValue_t *))  \
	X(nvmlReturn_t, nvmlDeviceGetComputeRunningProcesses_v3,                                   \
	  (nvmlDevice_t, unsigned int *, struct nvmlProcessInfo_t *))

#ifdef STUB

/* What a program links where there is no NVML: the names, and no more. */
#define DEFINE(type, name, args)                                                                   \
	type name args;                                                                            \
	__asm__(".globl " #name "\n.type " #name ", @function\n" #name ": mov $9, %eax\nret");
CALLS(DEFINE)

#else

#define MEMBER(type, name, args) type(*name) args;
static struct {
	CALLS(MEMBER)
} n;

static struct {
	CUresult (*cuInit)(unsigned int);
	CUresult (*cuDeviceGetCount)(int *);
	CUresult (*cuDeviceGet)(CUdevice *, int);
	CUresult (*cuDeviceGetUuid)(CUuuid *, CUdevice);
	CUresult (*cuDeviceGetPCIBusId)(char *, int, CUdevice);
	CUresult (*cuDevicePrimaryCtxRetain)(CUcontext *, CUdevice);
	CUresult (*cuCtxSetCurrent)(CUcontext);
	CUresult (*cuMemAlloc_v2)(CUdeviceptr *, size_t);
	CUresult (*cuMemFree_v2)(CUdeviceptr);
} cu;

static int broken;

/* Check a promise; say it only when it does not hold. */
static void promise(const char *what, int holds)
{
	if (!holds) {
		printf("not so: %s\n", what);
		broken++;
	}
}
#define PROMISE(what) promise(#what, what)

static int find(void *library, const char *name, void *slot)
{
	*(void **)slot = dlsym(library, name);
	if (!*(void **)slot)
		printf("%s: not found\n", name);
	return *(void **)slot != NULL;
}

#ifdef LINKED
#define DECLARE(type, name, args) extern type name args;
CALLS(DECLARE)
#define FIND(type, name, args) n.name = name;
static int find_nvml(void)
{
	CALLS(FIND)
	return 1;
}
#else
#define FIND(type, name, args) all &= find(library, #name, &n.name);
static int find_nvml(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	int all = library != NULL;

	if (!library)
		printf("%s\n", dlerror());
	else
		CALLS(FIND)
	return all;
}
#endif

static int find_cuda(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	return library && find(library, "cuInit", &cu.cuInit) &&
	       find(library, "cuDeviceGetCount", &cu.cuDeviceGetCount) &&
	       find(library, "cuDeviceGet", &cu.cuDeviceGet) &&
	       find(library, "cuDeviceGetUuid", &cu.cuDeviceGetUuid) &&
	       find(library, "cuDeviceGetPCIBusId", &cu.cuDeviceGetPCIBusId) &&
	       find(library, "cuDevicePrimaryCtxRetain", &cu.cuDevicePrimaryCtxRetain) &&
	       find(library, "cuCtxSetCurrent", &cu.cuCtxSetCurrent) &&
	       find(library, "cuMemAlloc_v2", &cu.cuMemAlloc_v2) &&
	       find(library, "cuMemFree_v2", &cu.cuMemFree_v2);
}

static void starting_and_ending(void)
{
	unsigned int count;

	PROMISE(n.nvmlDeviceGetCount_v2(&count) == NVML_ERROR_UNINITIALIZED);
	PROMISE(n.nvmlShutdown() == NVML_ERROR_UNINITIALIZED);
	PROMISE(n.nvmlInit_v2() == NVML_SUCCESS);
	PROMISE(n.nvmlInit_v2() == NVML_SUCCESS);
	PROMISE(n.nvmlShutdown() == NVML_SUCCESS);
	PROMISE(n.nvmlDeviceGetCount_v2(&count) == NVML_SUCCESS); /* started twice, ended once */
	PROMISE(strlen(n.nvmlErrorString(NVML_ERROR_NOT_SUPPORTED)) > 0);
}

static void wrong_calls(nvmlDevice_t device)
{
	unsigned int count = 0, number;
	nvmlDevice_t other;
	char text[128];

	PROMISE(n.nvmlDeviceGetCount_v2(NULL) == NVML_ERROR_INVALID_ARGUMENT);
	PROMISE(n.nvmlDeviceGetHandleByIndex_v2(999, &other) == NVML_ERROR_INVALID_ARGUMENT);
	PROMISE(n.nvmlDeviceGetHandleByUUID("GPU-none", &other) != NVML_SUCCESS);
	PROMISE(n.nvmlDeviceGetHandleByPciBusId_v2("ffff:ff:1f.0", &other) != NVML_SUCCESS);
	PROMISE(n.nvmlDeviceGetIndex(NULL, &number) == NVML_ERROR_INVALID_ARGUMENT);
	PROMISE(n.nvmlDeviceGetName(device, text, 2) == NVML_ERROR_INSUFFICIENT_SIZE);
	PROMISE(n.nvmlDeviceGetUUID(device, text, 10) == NVML_ERROR_INSUFFICIENT_SIZE);
	PROMISE(n.nvmlDeviceGetMemoryInfo(device, NULL) == NVML_ERROR_INVALID_ARGUMENT);
	PROMISE(n.nvmlDeviceGetComputeRunningProcesses_v3(device, NULL, NULL) ==
		NVML_ERROR_INVALID_ARGUMENT);
	PROMISE(n.nvmlDeviceGetComputeRunningProcesses_v3(device, &count, NULL) == NVML_SUCCESS ||
		count > 0);
}

/* The driver's and NVML's names of one device. */
static void same_device(CUdevice ordinal)
{
	char bus[32], uuid[96], text[96];
	struct nvmlPciInfo_t pci;
	nvmlDevice_t by_bus, by_uuid;
	unsigned int index = 99, again = 98;
	int at = 4;
	CUuuid id;

	PROMISE(cu.cuDeviceGetPCIBusId(bus, sizeof(bus), ordinal) == CUDA_SUCCESS);
	PROMISE(cu.cuDeviceGetUuid(&id, ordinal) == CUDA_SUCCESS);
	strcpy(uuid, "GPU-");
	for (int i = 0; i < 16; i++)
		at += sprintf(uuid + at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      (unsigned char)id.bytes[i]);
	PROMISE(n.nvmlDeviceGetHandleByPciBusId_v2(bus, &by_bus) == NVML_SUCCESS);
	PROMISE(n.nvmlDeviceGetHandleByUUID(uuid, &by_uuid) == NVML_SUCCESS);
	PROMISE(n.nvmlDeviceGetUUID(by_bus, text, sizeof(text)) == NVML_SUCCESS);
	PROMISE(strcmp(text, uuid) == 0);
	PROMISE(n.nvmlDeviceGetPciInfo_v3(by_uuid, &pci) == NVML_SUCCESS);
	PROMISE(strcasecmp(pci.busIdLegacy, bus) == 0);
	PROMISE(n.nvmlDeviceGetIndex(by_bus, &index) == NVML_SUCCESS);
	PROMISE(n.nvmlDeviceGetIndex(by_uuid, &again) == NVML_SUCCESS && again == index);
}

static void looking(nvmlDevice_t device)
{
	struct nvmlMemory_v2_t memory = {.version = 0x02000028};
	struct nvmlFieldValue_t fields[2] = {{.fieldId = 1}, {.fieldId = 9999}};
	struct nvmlUtilization_t load = {999, 999};
	struct nvmlMemory_t v1;
	unsigned int number = 0;
	int major = 0, minor = -1, release = 0;
	char text[96];

	PROMISE(n.nvmlSystemGetDriverVersion(text, sizeof(text)) == NVML_SUCCESS);
	PROMISE(n.nvmlSystemGetCudaDriverVersion_v2(&release) == NVML_SUCCESS && release >= 12000);
	PROMISE(n.nvmlDeviceGetName(device, text, sizeof(text)) == NVML_SUCCESS && strlen(text));
	PROMISE(n.nvmlDeviceGetMemoryInfo(device, &v1) == NVML_SUCCESS);
	PROMISE(v1.total > 0 && v1.free <= v1.total && v1.used <= v1.total);
	PROMISE(n.nvmlDeviceGetMemoryInfo_v2(device, &memory) == NVML_SUCCESS);
	PROMISE(memory.version == 0x02000028 && memory.total == v1.total);
	PROMISE(n.nvmlDeviceGetUtilizationRates(device, &load) == NVML_SUCCESS && load.gpu <= 100);
	PROMISE(n.nvmlDeviceGetTemperature(device, 0, &number) == NVML_SUCCESS && number < 120);
	PROMISE(n.nvmlDeviceGetPowerUsage(device, &number) == NVML_SUCCESS && number > 0);
	PROMISE(n.nvmlDeviceGetCudaComputeCapability(device, &major, &minor) == NVML_SUCCESS);
	PROMISE(major >= 5 && minor >= 0);
	PROMISE(n.nvmlDeviceGetFieldValues(device, 2, fields) == NVML_SUCCESS);
	PROMISE(fields[0].fieldId == 1 && fields[1].nvmlReturn != NVML_SUCCESS);
}

/* Memory that the driver gives out is missing in NVML's eyes. */
static void memory_is_seen(nvmlDevice_t device, size_t size)
{
	struct nvmlMemory_t before, after;
	CUdeviceptr pointer;
	CUcontext context;
	CUdevice first;

	PROMISE(cu.cuDeviceGet(&first, 0) == CUDA_SUCCESS);
	PROMISE(cu.cuDevicePrimaryCtxRetain(&context, first) == CUDA_SUCCESS);
	PROMISE(cu.cuCtxSetCurrent(context) == CUDA_SUCCESS);
	PROMISE(n.nvmlDeviceGetMemoryInfo(device, &before) == NVML_SUCCESS);
	PROMISE(cu.cuMemAlloc_v2(&pointer, size) == CUDA_SUCCESS);
	PROMISE(n.nvmlDeviceGetMemoryInfo(device, &after) == NVML_SUCCESS);
	PROMISE(after.used >= before.used + size);
	PROMISE(cu.cuMemFree_v2(pointer) == CUDA_SUCCESS);
}

/* NVML does not spoil the driver for a child: that is why frameworks ask it before they fork. */
static int child(void)
{
	unsigned int count = 0;
	int devices = 0;

	PROMISE(n.nvmlDeviceGetCount_v2(&count) == NVML_ERROR_UNINITIALIZED ||
		count > 0); /* the real library goes on in the child */
	PROMISE(n.nvmlInit_v2() == NVML_SUCCESS);
	PROMISE(n.nvmlDeviceGetCount_v2(&count) == NVML_SUCCESS && count > 0);
	PROMISE(cu.cuInit(0) == CUDA_SUCCESS);
	PROMISE(cu.cuDeviceGetCount(&devices) == CUDA_SUCCESS && devices > 0);
	fflush(stdout);
	return broken != 0;
}

static void before_a_fork(void)
{
	unsigned int count = 0;
	int status = -1;
	pid_t pid;

	PROMISE(n.nvmlInit_v2() == NVML_SUCCESS);
	PROMISE(n.nvmlDeviceGetCount_v2(&count) == NVML_SUCCESS && count > 0);
	for (int i = 0; i < 3; i++) {
		fflush(stdout);
		pid = fork();
		if (pid == 0)
			_exit(child());
		PROMISE(waitpid(pid, &status, 0) == pid && status == 0);
		PROMISE(n.nvmlDeviceGetCount_v2(&count) == NVML_SUCCESS && count > 0);
	}
	PROMISE(cu.cuInit(0) == CUDA_SUCCESS);
}

int main(int argc, char **argv)
{
	nvmlDevice_t device = NULL;
	int devices = 0;

	if (!find_cuda() || !find_nvml())
		return 1;
	if (argc > 1 && strcmp(argv[1], "fork") == 0) {
		before_a_fork();
	} else {
		starting_and_ending();
		PROMISE(n.nvmlDeviceGetHandleByIndex_v2(0, &device) == NVML_SUCCESS);
		wrong_calls(device);
		looking(device);
		PROMISE(cu.cuInit(0) == CUDA_SUCCESS);
		PROMISE(cu.cuDeviceGetCount(&devices) == CUDA_SUCCESS && devices > 0);
		for (int i = 0; i < devices; i++)
			same_device(i);
		memory_is_seen(device, 16u << 20);
		memory_is_seen(device, 64u << 20);
		PROMISE(n.nvmlShutdown() == NVML_SUCCESS);
		PROMISE(n.nvmlShutdown() == NVML_ERROR_UNINITIALIZED);
	}
	printf("NVML: %d not as promised\n", broken);
	return broken != 0;
}

#endif
