/*
 * client/modules/function.c - functions of modules and kernels of libraries: one kind of handle.
 */
#include <string.h>

#include "client/modules/state.h"
#include "client/link/session_list.h"

struct ck_function *ckc_function_from(const void *handle)
{
	return ckc_object_check(handle, CK_OBJECT_FUNCTION);
}

/* The error of a read-only query on @handle, which is no function. */
static CUresult no_function(const void *handle)
{
	return handle ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
}

/* Call with the lock held. */
static CUresult announce_to(struct ck_function *f, const struct ckc_client *c)
{
	struct ckc_context *ctx = ckc_context_current();
	uint16_t bit = (uint16_t)(1u << c->index);
	CUresult err;

	if (f->announced & bit)
		return CUDA_SUCCESS;
	if (f->module->absent & bit)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	err = ck_wire_function(ctx && ctx->client == c ? ctx->object.id : 0, f->object.id,
			       f->module->object.id, f->kernel->name);
	if (!err)
		f->announced |= bit;
	return err;
}

/* A kernel of a library may be used on any server next: a call may name a device behind the
 * kernel. */
static void announce_elsewhere(struct ck_function *f, struct ckc_client *home)
{
	for (unsigned int i = 0; i < ckc_servers_count(); i++) {
		struct ckc_client *c = ckc_server_session(i);

		if (c == home || c->state != CK_STATE_READY)
			continue;
		ckc_route(c);
		announce_to(f, c);
	}
	ckc_route(home);
}

/* Announce a function on first use: most are never launched. */
CUresult ckc_function_announce(struct ck_function *f, uint64_t *id)
{
	struct ck_mutex *lock;
	struct ckc_client *c;
	CUresult err;

	*id = f->object.id;
	if (likely(f->announced && !ckc_many))
		return CUDA_SUCCESS;
	c = ckc_client_current();
	if (f->announced & 1u << c->index)
		return CUDA_SUCCESS;
	lock = &ckc_client_root()->modules->announce_lock;
	ck_lock(lock);
	err = announce_to(f, c);
	if (unlikely(ckc_many) && f->module->library)
		announce_elsewhere(f, c);
	ck_unlock(lock);
	return err;
}

CUresult ckc_function_id(CUfunction handle, uint64_t *id)
{
	struct ck_function *f = ckc_function_from(handle);

	return f ? ckc_function_announce(f, id) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult ckc_kernel_id(CUkernel handle, uint64_t *id)
{
	struct ck_function *f = ckc_function_from(handle);

	return f && f->module->library ? ckc_function_announce(f, id) : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult param_info(const void *handle, size_t index, size_t *offset, size_t *size)
{
	struct ck_function *f = ckc_function_from(handle);

	if (!f)
		return no_function(handle);
	if (!offset || index >= f->kernel->param_count)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = f->kernel->params[index].offset;
	if (size)
		*size = f->kernel->params[index].size;
	return CUDA_SUCCESS;
}

static CUresult param_count(const void *handle, size_t *count)
{
	struct ck_function *f = ckc_function_from(handle);

	if (!f)
		return no_function(handle);
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = f->kernel->param_count;
	return CUDA_SUCCESS;
}

static CUresult get_function_name(const void *handle, const char **out)
{
	struct ck_function *f = ckc_function_from(handle);

	if (!f)
		return no_function(handle);
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = f->kernel->name;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
					size_t *paramSize)
{
	return param_info(kernel, paramIndex, paramOffset, paramSize);
}

CK_EXPORT CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
				      size_t *paramSize)
{
	return param_info(func, paramIndex, paramOffset, paramSize);
}

CK_EXPORT CUresult cuKernelGetParamCount(CUkernel kernel, size_t *paramCount)
{
	return param_count(kernel, paramCount);
}

CK_EXPORT CUresult cuFuncGetParamCount(CUfunction func, size_t *paramCount)
{
	return param_count(func, paramCount);
}

CK_EXPORT CUresult cuKernelGetName(const char **out, CUkernel hfunc)
{
	return get_function_name(hfunc, out);
}

CK_EXPORT CUresult cuFuncGetName(const char **out, CUfunction hfunc)
{
	return get_function_name(hfunc, out);
}

CK_EXPORT CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	uint64_t ctx;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!pFunc)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ckc_function_from(kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	*pFunc = (CUfunction)kernel;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
	struct ck_function *f = ckc_function_from(kernel);

	if (!pLib)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f || !f->module->library)
		return CUDA_ERROR_INVALID_HANDLE;
	*pLib = (CUlibrary)f->module;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
	struct ck_function *f = ckc_function_from(hfunc);

	if (!hmod)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f)
		return no_function(hfunc);
	if (f->module->library)
		return cuLibraryGetModule(hmod, (CUlibrary)f->module);
	*hmod = (CUmodule)f->module;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
	struct ck_function *f = ckc_function_from(function);

	if (!state)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	*state = f->announced ? CU_FUNCTION_LOADING_STATE_LOADED
			      : CU_FUNCTION_LOADING_STATE_UNLOADED;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuFuncLoad(CUfunction function)
{
	uint64_t id;

	return ckc_function_id(function, &id);
}

/* Setting an attribute waits for the result, because libraries choose kernels by it. Programs often
 * set the current value again; that is answered here. */
static bool is_set(const struct ck_function *f, CUfunction_attribute attrib, int value)
{
	return (unsigned)attrib < CU_FUNC_ATTRIBUTE_MAX && (f->set & 1u << attrib) &&
	       f->value[attrib] == value;
}

/*
 * Set @attrib, one-way if the driver is known to accept the value: it has done so before,
 * here or in an earlier session. @device: the server's ordinal; -1: for the current context.
 */
static CUresult set_attribute(struct ck_function *f, uint64_t ctx, CUfunction_attribute attrib,
			      int value, int device)
{
	const uint64_t key[] = {device < 0 ? CK_PROC_cuFuncSetAttribute
					   : CK_PROC_cuKernelSetAttribute,
				ctx,
				(uint64_t)attrib,
				f->object.id,
				(uint64_t)value,
				(uint64_t)device};
	int accepted = 1;
	CUresult err;

	if (ckc_session_offers(ckc_client_current(), CK_PROC_set_attribute) &&
	    ckc_cache_get(key, sizeof(key), &accepted, sizeof(accepted)))
		return ck_wire_set_attribute(ctx, f->object.id, device >= 0, attrib, value, device);
	err = device < 0 ? ck_wire_cuFuncSetAttribute(ctx, f->object.id, attrib, value)
			 : ck_wire_cuKernelSetAttribute(ctx, attrib, value, f->object.id, device);
	if (!err)
		ckc_cache_put(key, sizeof(key), &accepted, sizeof(accepted));
	return err;
}

static void note_attribute(struct ck_function *f, CUfunction_attribute attrib, int value)
{
	if (attrib == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
		f->max_dynamic_shared = value;
	if ((unsigned)attrib < CU_FUNC_ATTRIBUTE_MAX) {
		f->value[attrib] = value;
		f->set |= (uint16_t)(1u << attrib);
	}
	ckc_cache_forget(f->object.id);
}

CK_EXPORT CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
	struct ck_function *f = ckc_function_from(hfunc);
	uint64_t ctx, id;
	CUresult err = ckc_enter(&ctx);

	if (err)
		return err;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (is_set(f, attrib, value) && !(ckc_many && f->module->library))
		return CUDA_SUCCESS;
	err = ckc_function_announce(f, &id);
	if (!err)
		err = set_attribute(f, ctx, attrib, value, -1);
	if (!err)
		note_attribute(f, attrib, value);
	return err;
}

CK_EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
					CUdevice dev)
{
	struct ck_function *f = ckc_function_from(kernel);
	uint64_t ctx, id;
	int ordinal;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!f || !f->module->library)
		return CUDA_ERROR_INVALID_HANDLE;
	err = ckc_device_id(dev, &ordinal);
	if (!err && is_set(f, attrib, val) && ckc_client_root()->gpu_count == 1)
		return CUDA_SUCCESS;
	if (!err)
		err = ckc_function_announce(f, &id);
	if (!err)
		err = set_attribute(f, ctx, attrib, val, ordinal);
	if (!err)
		note_attribute(f, attrib, val);
	return err;
}

/* A preference of a function, now set, may affect launches and occupancy. */
static CUresult note_preference(CUresult err)
{
	if (!err)
		ckc_cache_altered();
	return err;
}

CK_EXPORT CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
	uint64_t ctx, id;
	CUresult err = ckc_enter(&ctx);

	if (!err)
		err = ckc_function_id(hfunc, &id);
	if (!err && (unsigned int)config > CU_FUNC_CACHE_PREFER_EQUAL)
		err = CUDA_ERROR_INVALID_VALUE;
	return err ? err : note_preference(ck_wire_cuFuncSetCacheConfig(ctx, id, config));
}

CK_EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
	uint64_t ctx, id;
	CUresult err = ckc_enter(&ctx);

	if (!err)
		err = ckc_function_id(hfunc, &id);
	if (!err && (unsigned int)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
		err = CUDA_ERROR_INVALID_VALUE;
	return err ? err : note_preference(ck_wire_cuFuncSetSharedMemConfig(ctx, id, config));
}

CK_EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
	uint64_t ctx, id;
	int ordinal;
	CUresult err = ckc_enter_any(&ctx);

	if (!err)
		err = ckc_kernel_id(kernel, &id);
	if (!err)
		err = ckc_device_id(dev, &ordinal);
	if (!err && (unsigned int)config > CU_FUNC_CACHE_PREFER_EQUAL)
		err = CUDA_ERROR_INVALID_VALUE;
	return err ? err
		   : note_preference(ck_wire_cuKernelSetCacheConfig(ctx, id, config, ordinal));
}
