/*
 * emu/proc.c - cuGetProcAddress: a call's base name, with a version, to its address.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "emu/emu.h"

#define NAME_MAX_SIZE 128
#define NEWEST 4 /* no call has a _v5 */

/*
 * Calls whose later form takes other arguments: a program that asks with an older version must
 * get the older one. The versions are those of the toolkits that changed the call; all others
 * changed before version 4000 and get their newest form.
 */
static const struct {
	const char *name;
	int since[NEWEST + 1]; /* of the form _vN; 0: there is none */
} changed[] = {
	{"cuCtxCreate", {0, 2000, 3020, 11040, 12050}},
	{"cuCtxGetDevice", {0, 2000, 13000}},
	{"cuCtxSynchronize", {0, 2000, 13000}},
	{"cuGetProcAddress", {0, 11030, 12000}},
	{"cuGraphAddDependencies", {0, 10000, 12030}},
	{"cuGraphAddKernelNode", {0, 10000, 12000}},
	{"cuGraphAddNode", {0, 12020, 12030}},
	{"cuGraphExecKernelNodeSetParams", {0, 10010, 12000}},
	{"cuGraphExecUpdate", {0, 10020, 12000}},
	{"cuGraphGetEdges", {0, 10000, 12030}},
	{"cuGraphKernelNodeGetParams", {0, 10000, 12000}},
	{"cuGraphKernelNodeSetParams", {0, 10000, 12000}},
	{"cuGraphInstantiate", {0, 10000, 11000}},
	{"cuGraphNodeGetDependencies", {0, 10000, 12030}},
	{"cuGraphNodeGetDependentNodes", {0, 10000, 12030}},
	{"cuGraphRemoveDependencies", {0, 10000, 12030}},
	{"cuMemAdvise", {0, 8000, 12020}},
	{"cuMemPrefetchAsync", {0, 8000, 12020}},
	{"cuMemcpy3DBatchAsync", {0, 12080, 13000}},
	{"cuMemcpyBatchAsync", {0, 12080, 13000}},
	{"cuStreamBeginCapture", {0, 10000, 10010}},
	{"cuStreamGetCaptureInfo", {0, 10010, 11030, 12030}},
	{"cuStreamGetCtx", {0, 9020, 12050}},
	{"cuStreamUpdateCaptureDependencies", {0, 11030, 12030}},
};

/* This library, whatever else in the process exports the same names. */
static void *self(void)
{
	static void *handle;
	Dl_info info;
	void *found = __atomic_load_n(&handle, __ATOMIC_ACQUIRE);

	if (found)
		return found;
	if (dladdr(&handle, &info) && info.dli_fname)
		found = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (!found) /* linked into a program, as tests do */
		found = dlopen(NULL, RTLD_LAZY);
	__atomic_store_n(&handle, found, __ATOMIC_RELEASE);
	return found;
}

/* Form @version of a call, its per-thread variant first where that is asked for. */
static void *form_find(const char *name, int version, bool per_thread)
{
	static const char *const suffixes[] = {"_ptsz", "_ptds", ""};
	char full[NAME_MAX_SIZE], form[16] = "";

	if (version > 1)
		snprintf(form, sizeof(form), "_v%d", version);
	for (size_t i = per_thread ? 0 : 2; i < CK_ARRAY_SIZE(suffixes); i++) {
		void *address;

		if (snprintf(full, sizeof(full), "%s%s%s", name, form, suffixes[i]) >=
		    (int)sizeof(full))
			return NULL;
		address = dlsym(self(), full);
		if (address)
			return address;
	}
	return NULL;
}

/* The newest form that a program of @version knows; *@too_old when all are newer. */
static void *call_find(const char *name, int version, bool per_thread, bool *too_old)
{
	void *address = NULL;

	*too_old = false;
	for (size_t i = 0; i < CK_ARRAY_SIZE(changed); i++) {
		if (strcmp(changed[i].name, name))
			continue;
		*too_old = true;
		for (int form = NEWEST; form > 0; form--) {
			int since = changed[i].since[form];

			if (!since || since > version)
				continue;
			*too_old = false;
			address = form_find(name, form, per_thread);
			if (address)
				return address;
		}
		return NULL;
	}
	for (int form = NEWEST; !address && form > 0; form--)
		address = form_find(name, form, per_thread);
	return address;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *symbolStatus)
{
	const cuuint64_t known =
		CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, too_old = false;

	if (!symbol || !pfn || flags & ~known)
		return CUDA_ERROR_INVALID_VALUE;
	*pfn = NULL;
	/* only the driver's own names, not whatever else the process has */
	if (strncmp(symbol, "cu", 2) == 0)
		*pfn = call_find(symbol, cudaVersion, per_thread, &too_old);
	if (symbolStatus)
		*symbolStatus = *pfn	  ? CU_GET_PROC_ADDRESS_SUCCESS
				: too_old ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
					  : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	/* without a status to tell it by, a missing call is an error */
	return *pfn || symbolStatus ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	return cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, NULL);
}
