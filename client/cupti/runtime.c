/*
 * client/cupti/runtime.c - calls of NVIDIA's runtime, which reports them to the driver
 * (libcuda/export_tables.c).
 *
 * A report comes at the beginning and at the end of a call.
 *
 * NVIDIA does not document the report. The fields that are read here were found with libcudart
 * 13.0, static and shared, by printing reports: each begins with its size; the word at 84 is 0 at
 * the beginning of a call and 1 at its end.
 */
#include <string.h>

#include "client/cupti/cupti.h"
#include "libcuda/export_tables.h"
#include "libcuda/libcuda.h"

#define REPORT_ENDS 84 /* offset of that word */

void ckc_cupti_runtime_enable(bool on)
{
	ck_export_hooks_set(on);
}

void ck_libcuda_runtime_call(uint32_t id, const void *info)
{
	uint64_t size;
	uint32_t ends;

	if (!info)
		return;
	memcpy(&size, info, sizeof(size));
	if (size < REPORT_ENDS + sizeof(ends) || size > 4096)
		return;
	memcpy(&ends, (const char *)info + REPORT_ENDS, sizeof(ends));
	if (ends)
		ckc_cupti_leave_runtime(id);
	else
		ckc_cupti_enter_runtime(id);
}
