/*
 * libcuda/procaddress.c - cuGetProcAddress, both forms. They work before cuInit, and every address
 * is one of ours.
 */
#include <string.h>

#include "gen/api.h"
#include "libcuda/libcuda.h"
#include "libcuda/procaddress.h"
#include "util/util.h"

#define FIRST_PER_THREAD 7000 /* CUDA version that brought per-thread default streams */

/* Index of the first entry of @name, or of where it would be. */
static unsigned int first_of(const char *name)
{
	unsigned int low = 0, high = ck_entry_count;

	while (low < high) {
		unsigned int middle = low + (high - low) / 2;

		if (strcmp(ck_entries[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The newest of [@at, @end) in one of its two forms and not newer than @version. */
static const struct ck_entry *find_newest(const struct ck_entry *at, const struct ck_entry *end,
					  int version, bool per_thread)
{
	for (; at < end; at++) {
		if (at->per_thread == per_thread && at->since <= version)
			return at;
	}
	return NULL;
}

/*
 * The variant of @name that a program built for CUDA @version means: the newest that is not
 * newer than @version, in its per-thread form where @per_thread asks for it and there is one.
 * NULL and the reason in *@status when there is none.
 */
static const struct ck_entry *find_entry(const char *name, int version, bool per_thread,
					 CUdriverProcAddressQueryResult *status)
{
	const struct ck_entry *at = ck_entries + first_of(name), *end = at;
	const struct ck_entry *plain, *threads;

	while (end < ck_entries + ck_entry_count && strcmp(end->name, name) == 0)
		end++;
	plain = find_newest(at, end, version, false);
	*status = CU_GET_PROC_ADDRESS_SUCCESS;
	if (!plain)
		*status = at == end ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
				    : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	if (!plain || !per_thread)
		return plain;
	/*
	 * Callers ask for the per-thread form with the version of the plain one, which may be
	 * older than per-thread forms are. A form counts only if it belongs to the same variant:
	 * variants differ in their arguments.
	 */
	threads = find_newest(at, end, ck_max(version, FIRST_PER_THREAD), true);
	if (threads && find_newest(at, end, threads->since, false) == plain)
		return threads;
	return plain;
}

static CUresult find_procedure(const char *symbol, void **pfn, int version, cuuint64_t flags,
			       const struct ck_entry **entry,
			       CUdriverProcAddressQueryResult *status)
{
	if (!symbol || !pfn || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	/* Libraries rely on this: a driver does not know later functions. */
	if (version > ck_libcuda_version())
		return CUDA_ERROR_INVALID_VALUE;
	*entry = find_entry(symbol, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
			    status);
	return CUDA_SUCCESS;
}

/* The form of CUDA 11.3: an unknown name is an error, and *pfn stays unchanged. */
CK_EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
				    cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status;
	const struct ck_entry *entry;
	CUresult err = find_procedure(symbol, pfn, cudaVersion, flags, &entry, &status);

	if (err)
		return err;
	if (!entry)
		return CUDA_ERROR_NOT_FOUND;
	*pfn = ck_libcuda_address(entry);
	return CUDA_SUCCESS;
}

/* The form of CUDA 12: an unknown name gives NULL, and the status has the reason. */
CK_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
				       cuuint64_t flags,
				       CUdriverProcAddressQueryResult *symbolStatus)
{
	CUdriverProcAddressQueryResult status;
	const struct ck_entry *entry;
	CUresult err = find_procedure(symbol, pfn, cudaVersion, flags, &entry, &status);

	if (err)
		return err;
	*pfn = entry ? ck_libcuda_address(entry) : NULL;
	if (symbolStatus)
		*symbolStatus = status;
	return CUDA_SUCCESS;
}
