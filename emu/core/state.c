/*
 * emu/core/state.c - whether a call can be carried out: not before cuInit, once the process ends,
 * or in a function of the application that a stream calls; nor in a context that has a fault.
 */
#include "emu/core/hooks.h"
#include "emu/core/mps.h"

const struct ck_emu_hooks *ck_emu_hooks;

static atomic_int state = CK_EMU_NEW;
static atomic_bool exiting;
static _Thread_local bool in_callback;

enum ck_emu_state ck_emu_state(void)
{
	return (enum ck_emu_state)atomic_load_explicit(&state, memory_order_acquire);
}

void ck_emu_state_set(enum ck_emu_state now)
{
	atomic_store(&state, (int)now);
}

bool ck_emu_exiting(void)
{
	return atomic_load_explicit(&exiting, memory_order_relaxed);
}

void ck_emu_exiting_set(void)
{
	atomic_store(&exiting, true);
}

bool ck_emu_thread_in_callback(void)
{
	return in_callback;
}

void ck_emu_thread_callback(bool inside)
{
	in_callback = inside;
}

CUresult ck_emu_enter_bare(void)
{
	if (ck_emu_exiting())
		return CUDA_ERROR_DEINITIALIZED;
	if (ck_emu_state() != CK_EMU_READY)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (in_callback)
		return CUDA_ERROR_NOT_PERMITTED;
	return CUDA_SUCCESS;
}

CUresult ck_emu_context_state(const struct ck_emu_context *context)
{
	CUresult fault;

	if (!context)
		return CUDA_SUCCESS;
	if (!atomic_load_explicit(&context->live, memory_order_relaxed))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	fault = (CUresult)atomic_load_explicit(&context->fault, memory_order_relaxed);
	if (fault)
		ck_emu_mps_fault();
	else if (ck_emu_mps_lost())
		fault = CUDA_ERROR_MPS_CLIENT_TERMINATED;
	return fault;
}

CUresult ck_emu_context_refusal(const struct ck_emu_context *context)
{
	CUresult result = ck_emu_context_state(context);

	return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
}
