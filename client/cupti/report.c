/*
 * client/cupti/report.c - call the program's subscriber (callback.c) at the beginning and the end
 * of a call.
 */
#include "client/cupti/call_numbers.h"
#include "client/cupti/cupti.h"
#include "gen/api.h"

_Atomic uint64_t *ckc_cupti_reported(struct ckc_cupti *s, uint32_t domain)
{
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
		return s->reported_driver;
	return domain == CUPTI_CB_DOMAIN_RUNTIME_API ? s->reported_runtime : NULL;
}

/* The name of the kernel that a call of the driver launches, or NULL. */
static const char *kernel_name(uint32_t call, const void *given)
{
	const struct {
		const void *config;
		CUfunction function;
	} *extended = given;
	const char *name = NULL;

	switch (call) {
	case CKC_CALL_cuLaunchKernel:
	case CKC_CALL_cuLaunchKernel_ptsz:
	case CKC_CALL_cuLaunchCooperativeKernel:
	case CKC_CALL_cuLaunchCooperativeKernel_ptsz:
		cuFuncGetName(&name, *(const CUfunction *)given);
		break;
	case CKC_CALL_cuLaunchKernelEx:
	case CKC_CALL_cuLaunchKernelEx_ptsz:
		cuFuncGetName(&name, extended->function);
		break;
	default:
		break;
	}
	return name;
}

void ckc_cupti_report(const struct ckc_cupti_report *r)
{
	struct ckc_client *c = ckc_client_current();
	struct ckc_cupti *s = c->cupti;
	struct ckc_cupti_self *self = ckc_cupti_self();
	const _Atomic uint64_t *bits = ckc_cupti_reported(s, r->domain);
	ck_cupti_callback_fn callback = atomic_load(&s->subscriber);
	struct ck_cupti_callback data = {
		.site = r->site,
		.function = r->name,
		.given = r->given,
		.result = r->result,
		.data = r->data,
		.context = ckc_context_current(),
		.correlation = r->correlation,
	};

	if (!self || self->reports || !callback || r->call >= CKC_CUPTI_CALLS ||
	    !(atomic_load(&bits[r->call / 64]) >> r->call % 64 & 1))
		return;
	self->reports = true;
	data.context_number = ckc_cupti_context_number(c);
	if (r->domain == CUPTI_CB_DOMAIN_DRIVER_API)
		data.symbol = kernel_name(r->call, r->given);
	callback(s->userdata, r->domain, r->call, &data);
	self->reports = false;
}
