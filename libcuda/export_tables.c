/*
 * libcuda/export_tables.c - cuGetExportTable: tables of functions that NVIDIA's own libraries ask
 * the driver for, by UUID. They are not documented; all that Cricket knows of them is in this file
 * and, of two long ones, in export_integrity.c and export_tpc.c.
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
#include <stdlib.h>
#include <string.h>

#include "gen/api.h"
#include "libcuda/export_tables.h"
#include "libcuda/locks.h"
#include "libcuda/libcuda.h"
#include "libcuda/local.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("driver");

static const char *library_of(const void *caller)
{
	Dl_info info;

	return dladdr(caller, &info) && info.dli_fname ? info.dli_fname : "?";
}

#define UUID_FORMAT "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x"
#define UUID_ARGS(u)                                                                               \
	(u)[0], (u)[1], (u)[2], (u)[3], (u)[4], (u)[5], (u)[6], (u)[7], (u)[8], (u)[9], (u)[10],   \
		(u)[11], (u)[12], (u)[13], (u)[14], (u)[15]

/* One line for each id that is refused; the ids of all known libraries fit the list. */
static void tell_refused(const CUuuid *id, const void *caller)
{
	static struct ck_mutex told_lock = CK_MUTEX(CK_RANK_EXPORT_TOLD);
	static CUuuid told[32];
	static size_t count;
	size_t i = 0;

	ck_lock(&told_lock);
	while (i < count && memcmp(&told[i], id, sizeof(*id)) != 0)
		i++;
	if (i == count && count < CK_ARRAY_SIZE(told))
		told[count++] = *id;
	else
		i = CK_ARRAY_SIZE(told);
	ck_unlock(&told_lock);
	if (i < CK_ARRAY_SIZE(told))
		ck_info("cuGetExportTable: " UUID_FORMAT " refused to %s", UUID_ARGS(id->bytes),
			library_of(caller));
}

#ifdef CK_NO_EXPORT_TABLES

static const void *find_table(const CUuuid *id)
{
	(void)id;
	return NULL;
}

void ck_export_hooks_set(bool on)
{
	(void)on;
}

#else

CUresult ck_export_unused(const char *table, bool *told, const void *caller)
{
	if (!__atomic_exchange_n(told, true, __ATOMIC_RELAXED))
		ck_warn("a function of export table %s that Cricket does not have was called by "
			"%s",
			table, library_of(caller));
	return CUDA_ERROR_NOT_SUPPORTED;
}

CK_EXPORT_UNUSED(interface)
CK_EXPORT_UNUSED(hooks)
CK_EXPORT_UNUSED(tools)
CK_EXPORT_UNUSED(checks)
CK_EXPORT_UNUSED(objects)
CK_EXPORT_UNUSED(functions)

/* --- 1: modules and primary contexts, for the runtime */

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

const void *const ck_export_interface[13] = {
	CK_EXPORT_WORDS(13),	  interface_load,   interface_primary,	    interface_unused,
	interface_unused,	  interface_unused, interface_load_wrapper, interface_nothing,
	interface_load_container, interface_unused, interface_unused,	    interface_unused,
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

void ck_export_hooks_set(bool on)
{
	for (size_t i = 0; i < HOOKS; i++)
		__atomic_store_n(&hook_flags[i], on, __ATOMIC_RELAXED);
}

/* Called at the beginning and the end of a call whose flag is set. */
static CUresult hooks_call(uint32_t id, void *info)
{
	ck_libcuda_runtime_call(id, info);
	return CUDA_SUCCESS;
}

/* Called ahead of that, for a number of the context that nothing here uses. */
static CUresult hooks_nothing(void)
{
	return CUDA_SUCCESS;
}

static const void *const hooks_table[7] = {
	CK_EXPORT_WORDS(7), hooks_call,	  hooks_flags,	    hooks_unused,
	hooks_nothing,	    hooks_unused, hooks_more_flags,
};

/* --- 3: the current context, by another way; cuBLASLt asks for each matrix product */

static CUresult tools_current(CUcontext *out)
{
	return cuCtxGetCurrent(out);
}

static const void *const tools_table[4] = {CK_EXPORT_WORDS(4), tools_unused, tools_current,
					   tools_unused};

/* --- 4: context-local storage, see libcuda/local.h; the one table without a size */

static const void *const local_table[4] = {ck_local_put, ck_local_delete, ck_local_get, NULL};

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
	CK_EXPORT_WORDS(17),	    checks_unused, checks_wrapped, checks_start,
	[4 ... 16] = checks_unused,
};

/* --- 6: export_integrity.c */

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

/* Its meaning is unknown; no value changes the behaviour of cuBLAS. */
static CUresult objects_query(CUcontext context, void *object, uint64_t *out)
{
	(void)context, (void)object;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = 0;
	return CUDA_SUCCESS;
}

static const void *const objects_table[93] = {
	CK_EXPORT_WORDS(93),	     [1 ... 3] = objects_unused,   objects_context_id,
	[5 ... 38] = objects_unused, [39] = objects_query,	   [40 ... 50] = objects_unused,
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
	if (!functions || cuModuleEnumerateFunctions(functions, count, module) != CUDA_SUCCESS)
		count = 0;
	for (unsigned int i = 0; i < count; i++)
		call(opaque, functions[i]);
	free(functions);
	return count;
}

static const void *const functions_table[8] = {CK_EXPORT_WORDS(8), [1 ... 6] = functions_unused,
					       functions_each};

/* --- 9: export_tpc.c */

/* --- by id */

static const struct {
	CUuuid id;
	const void *const *table;
} tables[] = {
	{{{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d,
	   0xf9}},
	 ck_export_interface},
	{{{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a,
	   0x66}},
	 hooks_table},
	{{{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec,
	   0xdc}},
	 tools_table},
	{{{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95,
	   0x93}},
	 local_table},
	{{{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa,
	   0x7e}},
	 checks_table},
	{{{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1,
	   0xf2}},
	 ck_export_integrity},
	{{{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8,
	   0xf2}},
	 objects_table},
	{{{0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99,
	   0x1e}},
	 functions_table},
	{{{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b,
	   0xca}},
	 ck_export_tpc},
};

static const void *find_table(const CUuuid *id)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(tables); i++) {
		if (memcmp(&tables[i].id, id, sizeof(*id)) != 0)
			continue;
		if (tables[i].table == ck_export_integrity)
			ck_integrity_prepare();
		return tables[i].table;
	}
	return NULL;
}

#endif

/*
 * Works before cuInit. On a refusal, set the pointer to NULL too: not all callers check the result.
 */
CK_EXPORT CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	if (!ppExportTable || !pExportTableId)
		return CUDA_ERROR_INVALID_VALUE;
	*ppExportTable = ck_libcuda_own_table(pExportTableId);
	if (!*ppExportTable)
		*ppExportTable = find_table(pExportTableId);
	if (*ppExportTable)
		return CUDA_SUCCESS;
	tell_refused(pExportTableId, __builtin_return_address(0));
	return CUDA_ERROR_NOT_FOUND;
}
