/*
 * tests/gpu/holds.c - which driver calls wait for all work of their context?
 *
 * usage: holds [WORD]...        only calls whose name contains a WORD
 *
 * For each call, a child process holds a non-blocking stream in a function of the host, and another
 * thread makes the call. A line says how it went: "returns" before the stream goes on, "waits" for
 * it, or "blocks": while it waits, other threads cannot even start a copy in another stream.
 * rpc/driver.api marks the calls that wait as `drains`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/types.h"

#define WAIT_MS 700
#define SIZE ((size_t)4 << 20)
#define CU(name) ((CUresult(*)())find(#name))
#define OK(name, ...) check(#name, CU(name)(__VA_ARGS__))

static const char ptx[] = ".version 6.4\n.target sm_75\n.address_size 64\n"
			  ".visible .global .align 4 .u32 word;\n"
			  ".visible .entry nothing() { ret; }\n"
			  ".visible .entry other() { .shared .align 4 .b8 room[1024]; ret; }\n";

static void *library;
static volatile bool released;

/* What a call may use; made before the stream is held. */
static struct {
	CUdevice device;
	CUcontext context, second;
	CUstream held, stream;
	CUmodule module;
	CUfunction function, fresh;
	void *lib, *kernel;
	CUdeviceptr memory, managed, reserved, mapped, pooled, target;
	void *host, *plain;
	CUarray array;
	void *mipmap, *pool, *event, *graph, *exec, *link, *green;
	unsigned long long physical, more, texture, surface;
} o;

static void *find(const char *name)
{
	void *symbol = dlsym(library, name);

	if (!symbol) {
		printf("no %s\n", name);
		_exit(2);
	}
	return symbol;
}

static void check(const char *name, CUresult result)
{
	if (result) {
		printf("(%s: %d) ", name, result);
		fflush(stdout);
	}
}

static void hold(void *data)
{
	(void)data;
	while (!released)
		usleep(1000);
}

struct prop {
	int type, handle_types, location, id;
	void *security;
	unsigned char flags[8];
	unsigned char more[64];
};

static const struct prop physical = {.type = 1, .location = 1};
static const struct {
	int type, id, flags;
} access_of = {1, 0, 3};

struct array2 {
	size_t width, height;
	int format;
	unsigned int channels;
};
struct array3 {
	size_t width, height, depth;
	int format;
	unsigned int channels, flags;
};
static const struct array2 flat = {64, 64, 0x20, 1};
static const struct array3 deep = {64, 64, 0, 0x20, 1, 0};
static int surface_desc[64], texture_desc[64], pool_props[64];

static void graph_with_kernel(void)
{
	void *node;
	struct {
		CUfunction f;
		unsigned int grid[3], block[3], shared;
		void **params, **extra, *kernel, *ctx;
	} p = {o.function, {1, 1, 1}, {1, 1, 1}, 0, NULL, NULL, NULL, NULL};

	OK(cuGraphCreate, &o.graph, 0);
	OK(cuGraphAddKernelNode_v2, &node, o.graph, NULL, (size_t)0, &p);
}

static void load_module(void)
{
	OK(cuModuleLoadData, &o.module, ptx);
}
static void unload_module(void)
{
	OK(cuModuleUnload, o.module);
}
static void get_function(void)
{
	OK(cuModuleGetFunction, &o.fresh, o.module, "other");
}
static void get_global(void)
{
	CUdeviceptr p;
	size_t n;
	OK(cuModuleGetGlobal_v2, &p, &n, o.module, "word");
}
static void load_library(void)
{
	OK(cuLibraryLoadData, &o.lib, ptx, NULL, NULL, 0, NULL, NULL, 0);
}
static void load_library_and_launch(void)
{
	load_library();
	OK(cuLibraryGetKernel, &o.kernel, o.lib, "nothing");
	OK(cuLaunchKernel, o.kernel, 1, 1, 1, 1, 1, 1, 0, o.stream, NULL, NULL);
	OK(cuStreamSynchronize, o.stream);
}
static void unload_library(void)
{
	OK(cuLibraryUnload, o.lib);
}
static void get_kernel(void)
{
	OK(cuLibraryGetKernel, &o.kernel, o.lib, "other");
}
static void library_kernel(void)
{
	load_library();
	get_kernel();
}
static void kernel_function(void)
{
	OK(cuKernelGetFunction, &o.fresh, o.kernel);
}
static void kernel_attribute(void)
{
	int v;
	OK(cuKernelGetAttribute, &v, 4, o.kernel, o.device);
}
static void kernel_set(void)
{
	OK(cuKernelSetAttribute, 8, 1024, o.kernel, o.device);
}
static void library_global(void)
{
	CUdeviceptr p;
	size_t n;
	OK(cuLibraryGetGlobal, &p, &n, o.lib, "word");
}
static void library_module(void)
{
	CUmodule m;
	OK(cuLibraryGetModule, &m, o.lib);
}
static void function_attribute(void)
{
	int v;
	OK(cuFuncGetAttribute, &v, 4, o.fresh);
}
static void function_set(void)
{
	OK(cuFuncSetAttribute, o.fresh, 8, 1024);
}
static void function_cache(void)
{
	OK(cuFuncSetCacheConfig, o.fresh, 1);
}
static void function_load(void)
{
	OK(cuFuncLoad, o.fresh);
}
static void launch_fresh(void)
{
	OK(cuLaunchKernel, o.fresh, 1, 1, 1, 1, 1, 1, 0, o.stream, NULL, NULL);
}
static void launch_known(void)
{
	OK(cuLaunchKernel, o.function, 1, 1, 1, 1, 1, 1, 0, o.stream, NULL, NULL);
}
static void occupancy(void)
{
	int v;
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor, &v, o.fresh, 32, (size_t)0);
}
static void instantiate(void)
{
	OK(cuGraphInstantiateWithFlags, &o.exec, o.graph, 0ULL);
}
static void instantiated(void)
{
	graph_with_kernel();
	instantiate();
}
static void graph_upload(void)
{
	OK(cuGraphUpload, o.exec, o.stream);
}
static void graph_launch(void)
{
	OK(cuGraphLaunch, o.exec, o.stream);
}
static void launched(void)
{
	instantiated();
	graph_launch();
	OK(cuStreamSynchronize, o.stream);
}
static void exec_destroy(void)
{
	OK(cuGraphExecDestroy, o.exec);
}
static void exec_update(void)
{
	int info[16];
	OK(cuGraphExecUpdate_v2, o.exec, o.graph, info);
}
static void graph_destroy(void)
{
	OK(cuGraphDestroy, o.graph);
}
static void graph_trim(void)
{
	OK(cuDeviceGraphMemTrim, o.device);
}
static void context_create(void)
{
	CUcontext c;
	OK(cuCtxCreate_v2, &c, 0, o.device);
}
static void second_context(void)
{
	OK(cuCtxCreate_v2, &o.second, 0, o.device);
	OK(cuCtxSetCurrent, o.context);
}
static void context_destroy(void)
{
	OK(cuCtxDestroy_v2, o.second);
}
static void primary_retain(void)
{
	CUcontext c;
	OK(cuDevicePrimaryCtxRetain, &c, o.device);
}
static void primary_release(void)
{
	OK(cuDevicePrimaryCtxRelease_v2, o.device);
}
static void primary_reset(void)
{
	OK(cuDevicePrimaryCtxReset_v2, o.device);
}
static void limit_stack(void)
{
	OK(cuCtxSetLimit, 0, (size_t)16384);
}
static void limit_printf(void)
{
	OK(cuCtxSetLimit, 1, (size_t)2 << 20);
}
static void limit_heap(void)
{
	OK(cuCtxSetLimit, 2, (size_t)32 << 20);
}
static void limit_l2(void)
{
	OK(cuCtxSetLimit, 6, (size_t)1 << 20);
}
static void cache_config(void)
{
	OK(cuCtxSetCacheConfig, 1);
}
static void reset_l2(void)
{
	OK(cuCtxResetPersistingL2Cache);
}
static void alloc(void)
{
	OK(cuMemAlloc_v2, &o.memory, (size_t)64 << 20);
}
static void alloc_pitch(void)
{
	size_t p;
	OK(cuMemAllocPitch_v2, &o.memory, &p, (size_t)1 << 20, (size_t)64, 4);
}
static void free_memory(void)
{
	OK(cuMemFree_v2, o.memory);
}
static void managed(void)
{
	OK(cuMemAllocManaged, &o.managed, SIZE, 1);
}
static void free_managed(void)
{
	OK(cuMemFree_v2, o.managed);
}
static void host_alloc(void)
{
	OK(cuMemHostAlloc, &o.host, SIZE, 0);
}
static void host_free(void)
{
	OK(cuMemFreeHost, o.host);
}
static void plain(void)
{
	o.plain = aligned_alloc(4096, SIZE);
	memset(o.plain, 1, SIZE);
}
static void host_register(void)
{
	OK(cuMemHostRegister_v2, o.plain, SIZE, 0);
}
static void registered(void)
{
	plain();
	host_register();
}
static void host_unregister(void)
{
	OK(cuMemHostUnregister, o.plain);
}
static void array_create(void)
{
	OK(cuArrayCreate_v2, &o.array, &flat);
}
static void array_destroy(void)
{
	OK(cuArrayDestroy, o.array);
}
static void mipmap_create(void)
{
	OK(cuMipmappedArrayCreate, &o.mipmap, &deep, 3);
}
static void mipmap_destroy(void)
{
	OK(cuMipmappedArrayDestroy, o.mipmap);
}
static void reserve(void)
{
	OK(cuMemAddressReserve, &o.reserved, SIZE, (size_t)0, (CUdeviceptr)0, 0ULL);
}
static void address_free(void)
{
	OK(cuMemAddressFree, o.reserved, SIZE);
}
static void create(void)
{
	OK(cuMemCreate, &o.physical, SIZE, &physical, 0ULL);
}
static void release(void)
{
	OK(cuMemRelease, o.physical);
}
static void reserved(void)
{
	reserve();
	create();
}
static void map(void)
{
	OK(cuMemMap, o.reserved, SIZE, (size_t)0, o.physical, 0ULL);
}
static void mapped(void)
{
	reserved();
	map();
}
static void set_access(void)
{
	OK(cuMemSetAccess, o.reserved, SIZE, &access_of, (size_t)1);
}
static void accessible(void)
{
	mapped();
	set_access();
}
static void unmap(void)
{
	OK(cuMemUnmap, o.reserved, SIZE);
}
static void unmapped(void)
{
	accessible();
	unmap();
}
static void pool_create(void)
{
	pool_props[0] = 1, pool_props[2] = 1;
	OK(cuMemPoolCreate, &o.pool, pool_props);
}
static void pool_destroy(void)
{
	OK(cuMemPoolDestroy, o.pool);
}
static void pooled(void)
{
	pool_create();
	OK(cuMemAllocFromPoolAsync, &o.pooled, SIZE, o.pool, o.stream);
	OK(cuStreamSynchronize, o.stream);
}
static void pool_used(void)
{
	uint64_t keep = UINT64_MAX;

	pool_create();
	OK(cuMemPoolSetAttribute, o.pool, 4, &keep);
	OK(cuMemAllocFromPoolAsync, &o.pooled, SIZE * 16, o.pool, o.stream);
	OK(cuMemFreeAsync, o.pooled, o.stream);
	OK(cuStreamSynchronize, o.stream);
}
static void pool_trim(void)
{
	OK(cuMemPoolTrimTo, o.pool, (size_t)0);
}
static void pool_attribute(void)
{
	uint64_t v = 0;
	OK(cuMemPoolSetAttribute, o.pool, 4, &v);
}
static void alloc_async(void)
{
	OK(cuMemAllocAsync, &o.pooled, SIZE, o.stream);
}
static void alloced_async(void)
{
	alloc_async();
	OK(cuStreamSynchronize, o.stream);
}
static void free_async(void)
{
	OK(cuMemFreeAsync, o.pooled, o.stream);
}
static void free_of_async(void)
{
	OK(cuMemFree_v2, o.pooled);
}
static void stream_create(void)
{
	CUstream s;
	OK(cuStreamCreate, &s, 1);
}
static void stream_destroy(void)
{
	OK(cuStreamDestroy_v2, o.stream);
}
static void event_create(void)
{
	OK(cuEventCreate, &o.event, 0);
}
static void event_destroy(void)
{
	OK(cuEventDestroy_v2, o.event);
}
static void surface_create(void)
{
	memcpy(surface_desc + 2, &o.array, sizeof(o.array));
	OK(cuSurfObjectCreate, &o.surface, surface_desc);
}
static void array(void)
{
	struct array3 d = deep;
	d.flags = 2;
	OK(cuArray3DCreate_v2, &o.array, &d);
}
static void surface(void)
{
	array();
	surface_create();
}
static void surface_destroy(void)
{
	OK(cuSurfObjectDestroy, o.surface);
}
static void texture_create(void)
{
	memcpy(surface_desc + 2, &o.array, sizeof(o.array));
	OK(cuTexObjectCreate, &o.texture, surface_desc, texture_desc, NULL);
}
static void texture(void)
{
	array();
	texture_create();
}
static void texture_destroy(void)
{
	OK(cuTexObjectDestroy, o.texture);
}
static void ipc_handle(void)
{
	char h[64];
	OK(cuIpcGetMemHandle, h, o.memory);
}
static void memory_info(void)
{
	size_t a, b;
	OK(cuMemGetInfo_v2, &a, &b);
}
static void prefetch(void)
{
	OK(cuMemPrefetchAsync, o.managed, SIZE, o.device, o.stream);
}
static void copy_async(void)
{
	OK(cuMemcpyHtoDAsync_v2, o.target, o.host, (size_t)4096, o.stream);
}
static void copy_pageable(void)
{
	char b[64] = {0};
	OK(cuMemcpyHtoDAsync_v2, o.target, b, sizeof(b), o.stream);
}
static void memset_sync(void)
{
	OK(cuMemsetD8_v2, o.target, 1, (size_t)64);
}
static void context_sync(void)
{
	OK(cuCtxSynchronize);
}
static void link_create(void)
{
	OK(cuLinkCreate_v2, 0, NULL, NULL, &o.link);
}
static void link_all(void)
{
	void *image;
	size_t size;

	OK(cuLinkAddData_v2, o.link, 1, ptx, sizeof(ptx), "x", 0, NULL, NULL);
	OK(cuLinkComplete, o.link, &image, &size);
}
static void link_destroy(void)
{
	OK(cuLinkDestroy, o.link);
}
static void module_and_fresh(void)
{
	load_module();
	get_function();
}

static const struct test {
	const char *name;
	void (*prepare)(void), (*act)(void);
} tests[] = {
	{"cuModuleLoadData", NULL, load_module},
	{"cuModuleUnload", load_module, unload_module},
	{"cuModuleUnload, after its function was got", module_and_fresh, unload_module},
	{"cuModuleGetFunction", load_module, get_function},
	{"cuModuleGetGlobal", load_module, get_global},
	{"cuLibraryLoadData", NULL, load_library},
	{"cuLibraryUnload", load_library, unload_library},
	{"cuLibraryUnload, after a launch", load_library_and_launch, unload_library},
	{"cuLibraryGetKernel", load_library, get_kernel},
	{"cuLibraryGetGlobal", load_library, library_global},
	{"cuLibraryGetModule", load_library, library_module},
	{"cuKernelGetFunction", library_kernel, kernel_function},
	{"cuKernelGetAttribute", library_kernel, kernel_attribute},
	{"cuKernelSetAttribute", library_kernel, kernel_set},
	{"cuFuncGetAttribute", module_and_fresh, function_attribute},
	{"cuFuncSetAttribute", module_and_fresh, function_set},
	{"cuFuncSetCacheConfig", module_and_fresh, function_cache},
	{"cuFuncLoad", module_and_fresh, function_load},
	{"cuLaunchKernel, first of a function", module_and_fresh, launch_fresh},
	{"cuLaunchKernel", NULL, launch_known},
	{"cuOccupancyMaxActiveBlocksPerMultiprocessor", module_and_fresh, occupancy},
	{"cuGraphInstantiate", graph_with_kernel, instantiate},
	{"cuGraphUpload", instantiated, graph_upload},
	{"cuGraphLaunch, first", instantiated, graph_launch},
	{"cuGraphLaunch", launched, graph_launch},
	{"cuGraphExecUpdate", launched, exec_update},
	{"cuGraphExecDestroy", launched, exec_destroy},
	{"cuGraphDestroy", launched, graph_destroy},
	{"cuDeviceGraphMemTrim", NULL, graph_trim},
	{"cuCtxCreate", NULL, context_create},
	{"cuCtxDestroy, another", second_context, context_destroy},
	{"cuDevicePrimaryCtxRetain", NULL, primary_retain},
	{"cuDevicePrimaryCtxRelease, not the last", primary_retain, primary_release},
	{"cuDevicePrimaryCtxRelease, the last", NULL, primary_release},
	{"cuDevicePrimaryCtxReset", NULL, primary_reset},
	{"cuCtxSetLimit, stack", NULL, limit_stack},
	{"cuCtxSetLimit, printf", NULL, limit_printf},
	{"cuCtxSetLimit, heap", NULL, limit_heap},
	{"cuCtxSetLimit, L2", NULL, limit_l2},
	{"cuCtxSetCacheConfig", NULL, cache_config},
	{"cuCtxResetPersistingL2Cache", NULL, reset_l2},
	{"cuMemAlloc", NULL, alloc},
	{"cuMemAllocPitch", NULL, alloc_pitch},
	{"cuMemFree", alloc, free_memory},
	{"cuMemAllocManaged", NULL, managed},
	{"cuMemFree, managed", managed, free_managed},
	{"cuMemHostAlloc", NULL, host_alloc},
	{"cuMemFreeHost", host_alloc, host_free},
	{"cuMemHostRegister", plain, host_register},
	{"cuMemHostUnregister", registered, host_unregister},
	{"cuArrayCreate", NULL, array_create},
	{"cuArrayDestroy", array_create, array_destroy},
	{"cuMipmappedArrayCreate", NULL, mipmap_create},
	{"cuMipmappedArrayDestroy", mipmap_create, mipmap_destroy},
	{"cuMemAddressReserve", NULL, reserve},
	{"cuMemAddressFree", reserve, address_free},
	{"cuMemCreate", NULL, create},
	{"cuMemRelease, never mapped", create, release},
	{"cuMemRelease, mapped", accessible, release},
	{"cuMemRelease, unmapped again", unmapped, release},
	{"cuMemMap", reserved, map},
	{"cuMemSetAccess", mapped, set_access},
	{"cuMemUnmap", accessible, unmap},
	{"cuMemPoolCreate", NULL, pool_create},
	{"cuMemPoolDestroy", pool_used, pool_destroy},
	{"cuMemPoolDestroy, memory in use", pooled, pool_destroy},
	{"cuMemPoolTrimTo", pool_used, pool_trim},
	{"cuMemPoolSetAttribute", pool_used, pool_attribute},
	{"cuMemAllocAsync", NULL, alloc_async},
	{"cuMemFreeAsync", alloced_async, free_async},
	{"cuMemFree, of cuMemAllocAsync", alloced_async, free_of_async},
	{"cuStreamCreate", NULL, stream_create},
	{"cuStreamDestroy", NULL, stream_destroy},
	{"cuEventCreate", NULL, event_create},
	{"cuEventDestroy", event_create, event_destroy},
	{"cuSurfObjectCreate", array, surface_create},
	{"cuSurfObjectDestroy", surface, surface_destroy},
	{"cuTexObjectCreate", array, texture_create},
	{"cuTexObjectDestroy", texture, texture_destroy},
	{"cuIpcGetMemHandle", alloc, ipc_handle},
	{"cuMemGetInfo", NULL, memory_info},
	{"cuMemPrefetchAsync", managed, prefetch},
	{"cuMemcpyHtoDAsync, pinned", host_alloc, copy_async},
	{"cuMemcpyHtoDAsync, pageable", NULL, copy_pageable},
	{"cuMemsetD8", NULL, memset_sync},
	{"cuCtxSynchronize", NULL, context_sync},
	{"cuLinkCreate", NULL, link_create},
	{"cuLinkComplete", link_create, link_all},
	{"cuLinkDestroy", link_create, link_destroy},
};

struct actor {
	void (*act)(void);
	volatile bool done;
};

static void *run(void *data)
{
	struct actor *a = data;

	OK(cuCtxSetCurrent, o.context);
	a->act();
	a->done = true;
	return NULL;
}

/* False: it had not ended after WAIT_MS. */
static bool ends_soon(struct actor *a, pthread_t *thread)
{
	pthread_create(thread, NULL, run, a);
	for (int i = 0; i < WAIT_MS && !a->done; i++)
		usleep(1000);
	return a->done;
}

static void begin(void)
{
	OK(cuInit, 0);
	OK(cuDeviceGet, &o.device, 0);
	OK(cuDevicePrimaryCtxRetain, &o.context, o.device);
	OK(cuCtxSetCurrent, o.context);
	OK(cuStreamCreate, &o.held, 1);
	OK(cuStreamCreate, &o.stream, 1);
	OK(cuModuleLoadData, &o.module, ptx);
	OK(cuModuleGetFunction, &o.function, o.module, "nothing");
	OK(cuLaunchKernel, o.function, 1, 1, 1, 1, 1, 1, 0, o.stream, NULL, NULL);
	OK(cuMemAlloc_v2, &o.target, SIZE);
	copy_pageable();
	OK(cuCtxSynchronize);
}

static int try(const struct test *t)
{
	struct actor actor = {t->act, false}, copier = {copy_pageable, false};
	pthread_t thread, other;

	begin();
	if (t->prepare)
		t->prepare();
	OK(cuLaunchHostFunc, o.held, hold, NULL);
	usleep(20000);
	if (ends_soon(&actor, &thread))
		printf("%-48s returns\n", t->name);
	else if (ends_soon(&copier, &other))
		printf("%-48s waits\n", t->name);
	else
		printf("%-48s blocks\n", t->name);
	fflush(stdout);
	released = true;
	for (int i = 0; i < 5000 && !actor.done; i++)
		usleep(1000);
	if (!actor.done)
		printf("%-48s does not return after the stream went on\n", t->name);
	fflush(stdout);
	_exit(0);
}

static bool is_chosen(const char *name, char **words)
{
	if (!*words)
		return true;
	for (; *words; words++)
		if (strstr(name, *words))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	(void)argc;
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (!is_chosen(tests[i].name, argv + 1))
			continue;
		fflush(stdout);
		if (!fork()) {
			library = dlopen("libcuda.so.1", RTLD_NOW);
			if (!library)
				_exit(3);
			alarm(20);
			try(&tests[i]);
		}
		int status;

		wait(&status);
		if (status)
			printf("%-48s child: status %x\n", tests[i].name, status);
	}
	return 0;
}
