/*
 * libcuda/export_tables.c - cuGetExportTable: tables of functions that NVIDIA's own libraries ask
 * the driver for, by UUID. They are not documented; all that Cricket knows of them is in this file.
 *
 * Provenance: our own observation of CUDA 13.0's libraries on a mock driver and on an H200, and
 * the published tests and notes of other open implementations (ZLUDA, LUPINE), used for facts
 * only. No file of NVIDIA's that is not public was opened, and nothing here comes from one; the
 * tables' names are the community's. Built with -DCK_NO_EXPORT_TABLES this file refuses every
 * id; then only programs that do not use NVIDIA's runtime library work.
 *
 * A table is an array of words. The first is its size in bytes, but for context-local storage,
 * which has none. A slot that is not understood refuses and says so: never NULL, for callers jump
 * there.
 * Tables are constant and stay where they are: the integrity answer covers their addresses.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/api.h"
#include "libcuda/export_tables.h"
#include "libcuda/libcuda.h"
#include "libcuda/local.h"
#include "libcuda/md2.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("driver");

#define WORDS(n) ((void *)((n) * sizeof(void *)))

static const char *library_of(const void *caller)
{
	Dl_info info;

	return dladdr(caller, &info) && info.dli_fname ? info.dli_fname : "?";
}

#define UUID_FORMAT "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x"
#define UUID_ARGS(u)                                                                              \
	(u)[0], (u)[1], (u)[2], (u)[3], (u)[4], (u)[5], (u)[6], (u)[7], (u)[8], (u)[9], (u)[10],  \
		(u)[11], (u)[12], (u)[13], (u)[14], (u)[15]

/* One line for each id that is refused; the ids of all known libraries fit the list. */
static void tell_refused(const CUuuid *id, const void *caller)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static CUuuid told[32];
	static size_t count;
	size_t i = 0;

	pthread_mutex_lock(&lock);
	while (i < count && memcmp(&told[i], id, sizeof(*id)) != 0)
		i++;
	if (i == count && count < CK_ARRAY_SIZE(told))
		told[count++] = *id;
	else
		i = CK_ARRAY_SIZE(told);
	pthread_mutex_unlock(&lock);
	if (i < CK_ARRAY_SIZE(told))
		ck_info("cuGetExportTable: " UUID_FORMAT " refused to %s", UUID_ARGS(id->bytes),
			library_of(caller));
}

#ifdef CK_NO_EXPORT_TABLES

static const void *find(const CUuuid *id)
{
	(void)id;
	return NULL;
}

#else

static CUresult unused(const char *table, bool *told, const void *caller)
{
	if (!__atomic_exchange_n(told, true, __ATOMIC_RELAXED))
		ck_warn("a function of export table %s that Cricket does not have was called by "
			"%s",
			table, library_of(caller));
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* The function in all slots of one table that are not understood. */
#define UNUSED(name)                                                                              \
	static CUresult name##_unused(void)                                                       \
	{                                                                                         \
		static bool told;                                                                 \
		return unused(#name, &told, __builtin_return_address(0));                         \
	}

UNUSED(interface)
UNUSED(hooks)
UNUSED(tools)
UNUSED(checks)
UNUSED(integrity)
UNUSED(objects)
UNUSED(functions)
UNUSED(tpc)

/* --- 1: what the runtime needs of modules and primary contexts */

static CUresult interface_load(CUmodule *out, const void *wrapper)
{
	return cuModuleLoadData(out, wrapper);
}

/* The handle of the primary context, without retaining it. */
static CUresult interface_primary(CUcontext *out, CUdevice device)
{
	return ck_libcuda_primary(out, device);
}

/* @a, @b and @n have only been seen as 0. */
static CUresult interface_load_wrapper(CUmodule *out, const void *wrapper, void *a, void *b,
				       unsigned int n)
{
	(void)a, (void)b, (void)n;
	return cuModuleLoadData(out, wrapper);
}

static void interface_nothing(size_t size)
{
	(void)size;
}

static CUresult interface_load_container(const void *container, CUmodule *out, void *a, void *b,
					 unsigned int n)
{
	(void)a, (void)b, (void)n;
	return cuModuleLoadFatBinary(out, container);
}

/* Load the compilers of the driver: ours are there already, or the server's. */
static CUresult interface_compilers(void)
{
	return CUDA_SUCCESS;
}

static const void *const interface_table[13] = {
	WORDS(13),
	interface_load,
	interface_primary,
	interface_unused,
	interface_unused,
	interface_unused,
	interface_load_wrapper,
	interface_nothing,
	interface_load_container,
	interface_unused,
	interface_unused,
	interface_unused,
	interface_compilers,
};

/* --- 2: flags that a profiler would set; the runtime checks that there are enough of them */

#define HOOKS 4096
#define MORE_HOOKS 64

static uint32_t hook_flags[HOOKS], more_hook_flags[MORE_HOOKS];

static void hooks_flags(uint32_t **flags, size_t *count)
{
	*flags = hook_flags;
	*count = HOOKS;
}

static void hooks_more_flags(uint32_t **flags, size_t *count)
{
	*flags = more_hook_flags;
	*count = MORE_HOOKS;
}

/* Called only when a flag is set, which does not happen; harmless if it is called all the same. */
static CUresult hooks_nothing(void)
{
	return CUDA_SUCCESS;
}

static const void *const hooks_table[7] = {
	WORDS(7),      hooks_nothing, hooks_flags,	hooks_unused,
	hooks_nothing, hooks_unused,  hooks_more_flags,
};

/* --- 3: the current context, by another way; cuBLASLt asks for each matrix product */

static CUresult tools_current(CUcontext *out)
{
	return cuCtxGetCurrent(out);
}

static const void *const tools_table[4] = { WORDS(4), tools_unused, tools_current, tools_unused };

/* --- 4: context-local storage, see libcuda/local.h; the one table without a size */

static const void *const local_table[4] = { ck_local_put, ck_local_delete, ck_local_get, NULL };

/* --- 5: is a context one that stands for another? None of ours is. */

static CUresult checks_wrapped(CUcontext context, uint32_t *is_wrapped, CUcontext *underlying)
{
	(void)context, (void)underlying;
	if (is_wrapped)
		*is_wrapped = 0;
	return CUDA_SUCCESS;
}

static CUresult checks_start(void)
{
	return CUDA_SUCCESS;
}

static const void *const checks_table[17] = {
	WORDS(17),     checks_unused, checks_wrapped, checks_start,
	[4 ... 16] = checks_unused,
};

/* --- 6: an answer that the runtime compares with its own */

static CUresult integrity_answer(uint32_t version, uint64_t seconds, uint64_t result[2]);

static const void *const integrity_table[3] = { WORDS(3), integrity_answer, integrity_unused };

static void put_integer(struct ck_hmac *hmac, uint64_t value, size_t size)
{
	unsigned char bytes[8];

	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(value >> (8 * i));
	ck_hmac_add(hmac, bytes, size);
}

void ck_integrity_answer(const struct ck_integrity *in, unsigned char answer[16])
{
	static const uint8_t key[CK_MD2_SIZE] = { 0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52,
						  0xaa, 0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f };
	struct ck_hmac hmac;

	ck_hmac_init(&hmac, key);
	put_integer(&hmac, in->driver_version, 4);
	put_integer(&hmac, in->version, 4);
	put_integer(&hmac, in->pid, 4);
	put_integer(&hmac, in->thread, 4);
	put_integer(&hmac, in->interface_table, 8);
	put_integer(&hmac, in->integrity_table, 8);
	put_integer(&hmac, in->function, 8);
	put_integer(&hmac, in->seconds, 8);
	for (size_t i = 0; i < in->device_count; i++) {
		const struct ck_integrity_device *d = &in->devices[i];

		ck_hmac_add(&hmac, d->uuid, sizeof(d->uuid));
		put_integer(&hmac, (uint32_t)d->pci_domain, 4);
		put_integer(&hmac, (uint32_t)d->pci_bus, 4);
		put_integer(&hmac, (uint32_t)d->pci_device, 4);
	}
	ck_hmac_end(&hmac, answer);
}

/* The facts must be those that the public calls tell; the devices in the application's order. */
static size_t integrity_devices(struct ck_integrity_device *devices)
{
	int count = 0;

	if (cuDeviceGetCount(&count) != CUDA_SUCCESS)
		return 0;
	count = ck_min(count, CK_LIBCUDA_DEVICES);
	for (int i = 0; i < count; i++) {
		struct ck_integrity_device *d = &devices[i];

		cuDeviceGetUuid((CUuuid *)d->uuid, i);
		cuDeviceGetAttribute(&d->pci_domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, i);
		cuDeviceGetAttribute(&d->pci_bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i);
		cuDeviceGetAttribute(&d->pci_device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, i);
	}
	return (size_t)count;
}

/* Asked three times, with 0 to 2 added to the runtime's version; the first two are constants. */
static CUresult integrity_answer(uint32_t version, uint64_t seconds, uint64_t result[2])
{
	struct ck_integrity_device devices[CK_LIBCUDA_DEVICES];
	struct ck_integrity in = {
		.version = version,
		.pid = (uint32_t)getpid(),
		.thread = (uint32_t)pthread_self(),
		.interface_table = (uintptr_t)interface_table,
		.integrity_table = (uintptr_t)integrity_table,
		.function = (uintptr_t)integrity_table[1],
		.seconds = seconds,
		.devices = devices,
	};
	int driver_version;

	if (!result)
		return CUDA_ERROR_INVALID_VALUE;
	if (version % 10 <= 1) {
		result[0] = version % 10 == 0 ? 0x3341181c03cb675c : 0x1841181c03cb675c;
		result[1] = 0x8ed383aa1f4cd1e8;
		return CUDA_SUCCESS;
	}
	if (cuDriverGetVersion(&driver_version) != CUDA_SUCCESS)
		return CUDA_ERROR_NOT_INITIALIZED;
	in.driver_version = (uint32_t)driver_version;
	in.device_count = integrity_devices(devices);
	ck_integrity_answer(&in, (unsigned char *)result);
	return CUDA_SUCCESS;
}

/* --- 7: number of a context, and an object of a stream that callers only hand back to us */

static CUresult objects_context_id(CUcontext context, uint64_t *id)
{
	unsigned long long number;
	CUresult err = id ? cuCtxGetId(context, &number) : CUDA_ERROR_INVALID_VALUE;

	if (!err)
		*id = number;
	return err;
}

static CUresult objects_stream(CUcontext context, CUstream handle, void **object)
{
	static char unnamed[3]; /* of the handles 0, 1 and 2, which are no addresses */
	bool is_named = (uintptr_t)handle >= sizeof(unnamed);
	CUresult err = CUDA_SUCCESS;
	unsigned int flags;

	(void)context;
	if (!object)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_named)
		err = cuStreamGetFlags(handle, &flags);
	if (!err)
		*object = is_named ? (void *)handle : &unnamed[(uintptr_t)handle];
	return err;
}

/* What it asks is not known; no value changes what cuBLAS does. */
static CUresult objects_query(CUcontext context, void *object, uint64_t *out)
{
	(void)context, (void)object;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = 0;
	return CUDA_SUCCESS;
}

static const void *const objects_table[93] = {
	WORDS(93),	     [1 ... 3] = objects_unused,   objects_context_id,
	[5 ... 38] = objects_unused, [39] = objects_query, [40 ... 50] = objects_unused,
	[51] = objects_stream,	     [52 ... 92] = objects_unused,
};

/* --- 8: the functions of a module, one by one; returns how many */

static unsigned int functions_each(CUcontext context, CUmodule module,
				   void (*call)(void *opaque, CUfunction function), void *opaque)
{
	CUfunction *functions;
	unsigned int count;

	(void)context;
	if (!call || cuModuleGetFunctionCount(&count, module) != CUDA_SUCCESS || count == 0)
		return 0;
	functions = calloc(count, sizeof(*functions));
	if (!functions ||
	    cuModuleEnumerateFunctions(functions, count, module) != CUDA_SUCCESS)
		count = 0;
	for (unsigned int i = 0; i < count; i++)
		call(opaque, functions[i]);
	free(functions);
	return count;
}

static const void *const functions_table[8] = { WORDS(8), [1 ... 6] = functions_unused,
						functions_each };

/* --- 9: which GPC each TPC of the device is in; differs from card to card */

struct tpc_map {
	bool asked;
	CUresult err;
	size_t count;
	unsigned char *gpc, *index;
};

/* What fails is not asked again. */
static void tpc_map_fill(struct tpc_map *map, CUdevice device)
{
	int sms = 0;

	cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
	map->asked = true;
	map->count = (size_t)ck_max(sms, 0) / 2;
	map->gpc = calloc(map->count + 1, 1);
	map->index = calloc(map->count + 1, 1);
	map->err = CUDA_ERROR_OUT_OF_MEMORY;
	if (!map->gpc || !map->index)
		return;
	map->err = CUDA_ERROR_NOT_SUPPORTED;
	if (map->count > 0)
		map->err = ck_libcuda_tpc_map(device, map->gpc, map->index, map->count);
}

/* Two arrays for the caller, who gives them back through tpc_free. */
static CUresult tpc_get(unsigned char **gpc, unsigned char **index)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct tpc_map maps[CK_LIBCUDA_DEVICES];
	struct tpc_map *map;
	CUdevice device;
	CUresult err;

	if (!gpc || !index)
		return CUDA_ERROR_INVALID_VALUE;
	*gpc = *index = NULL;
	err = cuCtxGetDevice(&device);
	if (err)
		return err;
	if (device >= CK_LIBCUDA_DEVICES)
		return CUDA_ERROR_NOT_SUPPORTED;
	map = &maps[device];
	pthread_mutex_lock(&lock);
	if (!map->asked)
		tpc_map_fill(map, device);
	pthread_mutex_unlock(&lock);
	if (map->err)
		return map->err;
	*gpc = malloc(map->count);
	*index = malloc(map->count);
	if (!*gpc || !*index) {
		free(*gpc);
		free(*index);
		*gpc = *index = NULL;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memcpy(*gpc, map->gpc, map->count);
	memcpy(*index, map->index, map->count);
	return CUDA_SUCCESS;
}

static CUresult tpc_free(void *gpc, void *index)
{
	free(gpc);
	free(index);
	return CUDA_SUCCESS;
}

static const void *const tpc_table[17] = {
	WORDS(17), [1 ... 3] = tpc_unused, tpc_get, [5 ... 12] = tpc_unused,
	tpc_free,  [14 ... 16] = tpc_unused,
};

/* --- by id */

static const struct {
	CUuuid id;
	const void *const *table;
} tables[] = {
	{ { { 0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd,
	      0x9d, 0xf9 } },
	  interface_table },
	{ { { 0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c,
	      0x0a, 0x66 } },
	  hooks_table },
	{ { { 0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a,
	      0xec, 0xdc } },
	  tools_table },
	{ { { 0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8,
	      0x95, 0x93 } },
	  local_table },
	{ { { 0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d,
	      0xfa, 0x7e } },
	  checks_table },
	{ { { 0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66,
	      0xe1, 0xf2 } },
	  integrity_table },
	{ { { 0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24,
	      0xc8, 0xf2 } },
	  objects_table },
	{ { { 0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1,
	      0x99, 0x1e } },
	  functions_table },
	{ { { 0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd,
	      0x8b, 0xca } },
	  tpc_table },
};

static const void *find(const CUuuid *id)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(tables); i++) {
		if (memcmp(&tables[i].id, id, sizeof(*id)) == 0)
			return tables[i].table;
	}
	return NULL;
}

#endif

/* Works before cuInit. What is refused is also set to NULL: not all callers look at the result. */
CK_EXPORT CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	if (!ppExportTable || !pExportTableId)
		return CUDA_ERROR_INVALID_VALUE;
	*ppExportTable = ck_libcuda_own_table(pExportTableId);
	if (!*ppExportTable)
		*ppExportTable = find(pExportTableId);
	if (*ppExportTable)
		return CUDA_SUCCESS;
	tell_refused(pExportTableId, __builtin_return_address(0));
	return CUDA_ERROR_NOT_FOUND;
}
