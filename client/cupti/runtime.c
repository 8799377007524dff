/*
 * client/cupti/runtime.c - records of calls of NVIDIA's runtime, which reports them to the driver
 * (libcuda/export_tables.c).
 *
 * A report comes at the beginning and at the end of a call. Within it, the driver's calls have no records of
 * their own, and the last one that is no wait gives the call its number.
 *
 * NVIDIA does not document the report. The fields that are read here were found with libcudart 13.0, static and shared, by
 * printing reports: each begins with its size; the word at 84 is 0 at the beginning of a call and 1 at its end.
 */
#include <string.h>

#include "client/cupti/cupti.h"
#include "libcuda/export_tables.h"
#include "libcuda/libcuda.h"

#define NESTED 8
#define REPORT_ENDS 84 /* offset of that word */

struct runtime_call {
	uint32_t id, correlation;
	uint64_t began;
};

static __thread struct runtime_call calls[NESTED] __attribute__((tls_model("initial-exec")));
static __thread unsigned int depth __attribute__((tls_model("initial-exec")));

void ckc_cupti_runtime_enable(bool on)
{
	ck_export_hooks_set(on);
}

bool ckc_cupti_runtime_inside(uint32_t correlation, bool works)
{
	if (depth == 0)
		return false;
	if (works || !calls[depth - 1].correlation)
		calls[depth - 1].correlation = correlation;
	return true;
}

/* Numbers for calls without a message do not meet those of messages, which are below 2^32 - 2^30. */
static uint32_t number(const struct runtime_call *call)
{
	static _Atomic uint32_t last;

	return call->correlation ? call->correlation
				 : 0xc0000000u | (atomic_fetch_add(&last, 1) & 0x3fffffff);
}

static void call_ended(struct ckc_cupti *s, uint32_t id)
{
	struct ck_cupti_api api = {.kind = CUPTI_ACTIVITY_KIND_RUNTIME, .call = id};

	/* a call that began before the profile, or that a longjmp has left */
	while (depth > 0 && calls[depth - 1].id != id)
		depth--;
	if (depth == 0)
		return;
	depth--;
	if (!ckc_cupti_wants(s, CUPTI_ACTIVITY_KIND_RUNTIME))
		return;
	api.start = calls[depth].began;
	api.end = ckc_cupti_clock();
	api.correlation = number(&calls[depth]);
	ckc_cupti_note_api(s, &api);
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
		call_ended(ckc_client_current()->cupti, id);
	else if (depth < NESTED)
		calls[depth++] = (struct runtime_call){.id = id, .began = ckc_cupti_clock()};
}
