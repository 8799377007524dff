/*
 * tests/test_apps/answers.c - what calls answer in the odd cases: host memory that is registered
 * twice, in parts, or without the right to write; arrays of no entries; attributes that a launch
 * does not take; SYNC_MEMOPS; contexts after a reset. expected/answers.txt is what an H200 (driver
 * 580) answers.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cuda/types.h"

#define MORE_DRIVER_CALLS(X)                                                                       \
	X(cuMemHostRegister_v2, (void *, size_t, unsigned int))                                    \
	X(cuMemHostUnregister, (void *))                                                           \
	X(cuMemHostAlloc, (void **, size_t, unsigned int))                                         \
	X(cuMemFreeHost, (void *))                                                                 \
	X(cuMemHostGetFlags, (unsigned int *, void *))                                             \
	X(cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned int))                     \
	X(cuGraphCreate, (CUgraph *, unsigned int))                                                \
	X(cuGraphAddEmptyNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t))              \
	X(cuGraphGetNodes, (CUgraph, CUgraphNode *, size_t *))                                     \
	X(cuGraphGetRootNodes, (CUgraph, CUgraphNode *, size_t *))                                 \
	X(cuGraphGetEdges_v2,                                                                      \
	  (CUgraph, CUgraphNode *, CUgraphNode *, CUgraphEdgeData *, size_t *))                    \
	X(cuGraphNodeGetDependencies_v2,                                                           \
	  (CUgraphNode, CUgraphNode *, CUgraphEdgeData *, size_t *))                               \
	X(cuGraphNodeGetDependentNodes_v2,                                                         \
	  (CUgraphNode, CUgraphNode *, CUgraphEdgeData *, size_t *))                               \
	X(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **))                \
	X(cuPointerSetAttribute, (const void *, CUpointer_attribute, CUdeviceptr))                 \
	X(cuPointerGetAttribute, (void *, CUpointer_attribute, CUdeviceptr))                       \
	X(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned int))                                \
	X(cuDevicePrimaryCtxReset_v2, (CUdevice))                                                  \
	X(cuModuleLoadDataEx, (CUmodule *, const void *, unsigned int, CUjit_option *, void **))

#include "driver_api.h"

#define SIZE ((size_t)1 << 20)
#define SAY(what, call) printf("%-44s %d\n", what, call)

static const char ptx[] = ".version 6.4\n.target sm_75\n.address_size 64\n"
			  ".visible .entry k() { ret; }\n";

static void registration(void)
{
	char *a = aligned_alloc(4096, SIZE);

	memset(a, 1, SIZE);
	SAY("register", cu.cuMemHostRegister_v2(a, SIZE, 0));
	SAY("register again", cu.cuMemHostRegister_v2(a, SIZE, 0));
	SAY("register a part", cu.cuMemHostRegister_v2(a + 4096, 4096, 0));
	SAY("unregister a part", cu.cuMemHostUnregister(a + 4096));
	SAY("unregister the second byte", cu.cuMemHostUnregister(a + 1));
	SAY("free as host memory", cu.cuMemFreeHost(a));
	SAY("unregister", cu.cuMemHostUnregister(a));
	SAY("unregister again", cu.cuMemHostUnregister(a));
	SAY("register from the second byte", cu.cuMemHostRegister_v2(a + 1, 4096, 0));
	SAY("unregister it", cu.cuMemHostUnregister(a + 1));
	SAY("register nothing", cu.cuMemHostRegister_v2(a, 0, 0));
	SAY("register with an unknown flag", cu.cuMemHostRegister_v2(a, SIZE, 0x80));
	free(a);
}

static void rights(void)
{
	char *read_only = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *none = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUdeviceptr device;

	SAY("register what cannot be written", cu.cuMemHostRegister_v2(read_only, SIZE, 0));
	SAY("unregister it", cu.cuMemHostUnregister(read_only));
	SAY("register it as read-only",
	    cu.cuMemHostRegister_v2(read_only, SIZE, CU_MEMHOSTREGISTER_READ_ONLY));
	SAY("register it again",
	    cu.cuMemHostRegister_v2(read_only, SIZE, CU_MEMHOSTREGISTER_READ_ONLY));
	SAY("unregister it", cu.cuMemHostUnregister(read_only));
	SAY("register what cannot be read", cu.cuMemHostRegister_v2(none, SIZE, 0));
	munmap(none, SIZE);
	SAY("register what is not mapped", cu.cuMemHostRegister_v2(none, SIZE, 0));
	cu.cuMemAlloc_v2(&device, 4096);
	SAY("register device memory", cu.cuMemHostRegister_v2((void *)device, 4096, 0));
	cu.cuMemFree_v2(device);
	munmap(read_only, SIZE);
}

static void allocation(void)
{
	void *p = (void *)1;
	unsigned int flags = 99;
	CUdeviceptr device;

	SAY("allocate nothing", cu.cuMemHostAlloc(&p, 0, 0));
	SAY("it is NULL", p == NULL);
	SAY("allocate", cu.cuMemHostAlloc(&p, 4096, 0));
	SAY("free a part", cu.cuMemFreeHost((char *)p + 16));
	SAY("unregister what was allocated", cu.cuMemHostUnregister(p));
	SAY("register what was allocated", cu.cuMemHostRegister_v2(p, 4096, 0));
	SAY("device pointer of a part", cu.cuMemHostGetDevicePointer_v2(&device, (char *)p + 5, 0));
	SAY("flags of a part", cu.cuMemHostGetFlags(&flags, (char *)p + 5));
	SAY("they are", (int)flags);
	SAY("free", cu.cuMemFreeHost(p));
	SAY("free again", cu.cuMemFreeHost(p));
	SAY("free NULL", cu.cuMemFreeHost(NULL));
}

static void queries(void)
{
	CUgraphNode first, second, from[4] = {0}, to[4];
	CUgraph graph;
	size_t none = 0, one = 1, many = 4;

	cu.cuGraphCreate(&graph, 0);
	cu.cuGraphAddEmptyNode(&first, graph, NULL, 0);
	cu.cuGraphAddEmptyNode(&second, graph, &first, 1);
	SAY("nodes, no entries", cu.cuGraphGetNodes(graph, from, &none));
	SAY("roots, no entries", cu.cuGraphGetRootNodes(graph, from, &none));
	SAY("edges, no entries", cu.cuGraphGetEdges_v2(graph, from, to, NULL, &none));
	SAY("dependencies, no entries",
	    cu.cuGraphNodeGetDependencies_v2(second, from, NULL, &none));
	SAY("dependent nodes, no entries",
	    cu.cuGraphNodeGetDependentNodes_v2(first, from, NULL, &none));
	SAY("nodes, one entry", cu.cuGraphGetNodes(graph, from, &one));
	SAY("written", (int)one);
	SAY("nodes, four entries", cu.cuGraphGetNodes(graph, from, &many));
	SAY("written", (int)many);
	SAY("no third", from[2] == NULL);
}

/* 7 and 12 are without their events; 13 depends on the driver and the capture. */
static void attributes(void)
{
	CUmodule module;
	CUfunction k;
	char what[40];

	cu.cuModuleLoadData(&module, ptx);
	cu.cuModuleGetFunction(&k, module, "k");
	for (int id = 0; id < 24; id++) {
		CUlaunchAttribute a = {.id = (CUlaunchAttributeID)id};
		CUlaunchConfig config = {1, 1, 1, 1, 1, 1, .attrs = &a, .numAttrs = 1};

		if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			a.value.clusterDim.x = a.value.clusterDim.y = a.value.clusterDim.z = 1;
		snprintf(what, sizeof(what), "launch with attribute %d", id);
		if (id != CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
			SAY(what, cu.cuLaunchKernelEx(&config, k, NULL, NULL));
	}
	SAY("synchronise", cu.cuCtxSynchronize());
}

static void set_memops(const char *what, CUdeviceptr set, CUdeviceptr get, unsigned int value)
{
	const CUpointer_attribute memops = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
	unsigned int now = 99;

	SAY(what, cu.cuPointerSetAttribute(&value, memops, set));
	if (!cu.cuPointerGetAttribute(&now, memops, get))
		SAY("then it is", (int)now);
}

static void memops(void)
{
	CUdeviceptr p, managed;
	void *host;

	cu.cuMemAlloc_v2(&p, SIZE);
	cu.cuMemAllocManaged(&managed, SIZE, CU_MEM_ATTACH_GLOBAL);
	cu.cuMemHostAlloc(&host, 4096, 0);
	set_memops("set SYNC_MEMOPS", p, p, 1);
	set_memops("reset it", p, p, 0);
	set_memops("set it by an address inside", p + 4096, p, 1);
	set_memops("set it to 2", p, p, 2);
	set_memops("set that of managed memory", managed, managed, 1);
	set_memops("set that of host memory", (CUdeviceptr)host, (CUdeviceptr)host, 1);
}

static void compiler(void)
{
	CUjit_option options[] = {CU_JIT_WALL_TIME};
	void *values[] = {NULL};
	float time = -1;
	CUmodule module;

	memcpy(values, &time, sizeof(time));
	SAY("load with CU_JIT_WALL_TIME", cu.cuModuleLoadDataEx(&module, ptx, 1, options, values));
	memcpy(&time, values, sizeof(time));
	SAY("the time was written", time >= 0);
	SAY("load PTX 99.9",
	    cu.cuModuleLoadData(&module, ".version 99.9\n.target sm_75\n.address_size 64\n"));
	SAY("load PTX for sm_99",
	    cu.cuModuleLoadData(&module, ".version 8.0\n.target sm_99\n.address_size 64\n"));
}

static void reset(CUcontext context)
{
	CUcontext again;
	CUdeviceptr p;

	SAY("reset the primary context", cu.cuDevicePrimaryCtxReset_v2(0));
	SAY("synchronise", cu.cuCtxSynchronize());
	SAY("allocate", cu.cuMemAlloc_v2(&p, 4096));
	SAY("retain it", cu.cuDevicePrimaryCtxRetain(&again, 0));
	SAY("it is the same", again == context);
	SAY("allocate", cu.cuMemAlloc_v2(&p, 4096));
	SAY("release", cu.cuDevicePrimaryCtxRelease_v2(0));
	SAY("release", cu.cuDevicePrimaryCtxRelease_v2(0));
	SAY("release", cu.cuDevicePrimaryCtxRelease_v2(0));
	SAY("synchronise", cu.cuCtxSynchronize());
}

int main(void)
{
	CUcontext context;

	if (driver_open() != 0 || cu.cuInit(0) != CUDA_SUCCESS ||
	    cu.cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
	    cu.cuCtxSetCurrent(context) != CUDA_SUCCESS)
		return 1;
	registration();
	rights();
	allocation();
	queries();
	attributes();
	memops();
	compiler();
	reset(context);
	return 0;
}
