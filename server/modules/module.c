/*
 * server/modules/module.c - modules, libraries, and lookup of names in them.
 *
 * Libraries are loaded with cuLibraryLoadData and belong to no context; modules belong to the
 * caller's. Ids of both kinds share one space, so that functions and variables can be looked up in
 * either.
 */
#include <stdlib.h>
#include <string.h>

#include "elf/image.h"
#include "gen/handlers.h"
#include "rpc/attributes.h"
#include "server/modules/jit.h"
#include "server/modules/link.h"
#include "server/modules/modcache.h"
#include "server/session/faults.h"
#include "server/session/session.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_LOADED (CK_KIND_BIT(CK_KIND_MODULE) | CK_KIND_BIT(CK_KIND_LIBRARY))

/* Get the image with the hash @bytes, and check that it is as long as its header says. The caller
 * frees it. */
static CUresult find_image(struct cks_request *q, const char *bytes, void **data)
{
	const char *fault = NULL;
	struct ck_image image;
	struct ck_hash hash;
	size_t size;
	int ret;

	memcpy(hash.bytes, bytes, sizeof(hash.bytes));
	ret = cks_modcache_get(q->session->modules, &hash, data, &size);
	if (ret < 0) {
		ck_info("a module that the server does not have: %s", strerror(-ret));
		return CUDA_ERROR_INVALID_IMAGE;
	}
	/* The driver gets no length, so all bytes that the headers claim must exist. Text ends with
	 * a NUL. */
	ret = ck_image_classify_bounded(*data, size + 1, &image);
	if (ret == 0 && image.kind == CK_IMAGE_ELF)
		fault = cks_elf_fault(image.data, image.size);
	if (ret == 0 && !fault)
		return CUDA_SUCCESS;
	ck_info("an image of %zu bytes that is not a module%s%s", size, fault ? ": " : "",
		fault ? fault : "");
	free(*data);
	return CUDA_ERROR_INVALID_IMAGE;
}

static CUresult drive_load(struct cks_build *b, bool library, const void *image, void **handle)
{
	if (library) {
		if (!ck_driver.cuLibraryLoadData)
			return CUDA_ERROR_NOT_SUPPORTED;
		return ck_driver.cuLibraryLoadData((CUlibrary *)handle, image, b->option, b->value,
						   b->count, NULL, NULL, 0);
	}
	if (!ck_driver.cuModuleLoadDataEx)
		return CUDA_ERROR_NOT_SUPPORTED;
	return ck_driver.cuModuleLoadDataEx((CUmodule *)handle, image, b->count, b->option,
					    b->value);
}

/* Text of several units must pass through the driver's linker. */
static CUresult load_units(struct cks_build *b, bool library, const void *image, void **handle)
{
	void *cubin = NULL;
	CUresult err = cks_link_units(image, b, &cubin);

	if (!err)
		err = drive_load(b, library, cubin, handle);
	free(cubin);
	return err;
}

/* Note a loaded module or library; unload it if that fails. */
static CUresult record_module(struct cks_request *q, uint64_t id, bool library, void *handle)
{
	CUresult err =
		cks_handles_put(q->session->handles, id, library ? CK_KIND_LIBRARY : CK_KIND_MODULE,
				library ? 0 : q->ctx, handle);

	if (err && library && ck_driver.cuLibraryUnload)
		ck_driver.cuLibraryUnload(handle);
	else if (err && !library && ck_driver.cuModuleUnload)
		ck_driver.cuModuleUnload(handle);
	return err;
}

static CUresult load_module(struct cks_request *q, struct cks_build *b, uint64_t id, bool library,
			    const char *hash)
{
	void *image = NULL, *handle = NULL;
	CUresult err = find_image(q, hash, &image);

	if (err)
		return err;
	if (cks_link_needed(image))
		err = load_units(b, library, image, &handle);
	else
		err = drive_load(b, library, image, &handle);
	free(image);
	b->info[CK_LOG_SIZE - 1] = b->error[CK_LOG_SIZE - 1] = '\0';
	if (err) {
		ck_info("loading a %s: %s%s%.400s", library ? "library" : "module",
			cks_error_name(err), b->error[0] ? ": " : "", b->error);
		return err;
	}
	return record_module(q, id, library, handle);
}

CUresult ck_serve_module_load(struct cks_request *q, ck_module_load_args *a, void *res)
{
	struct cks_build b;

	(void)res;
	cks_build_init(&b);
	return load_module(q, &b, a->module, a->library != 0, a->hash);
}

CUresult ck_serve_module_build(struct cks_request *q, ck_module_build_args *a,
			       ck_module_build_res *res)
{
	struct cks_build b;
	CUresult err;

	cks_build_init(&b);
	err = cks_build_options(&b, a->options.options_val, a->options.options_len);
	if (!err)
		err = load_module(q, &b, a->module, a->library != 0, a->hash);
	res->info_log.info_log_val = cks_build_log(b.info, &res->info_log.info_log_len);
	res->error_log.error_log_val = cks_build_log(b.error, &res->error_log.error_log_len);
	return err;
}

CUresult ck_serve_set_attribute(struct cks_request *q, ck_set_attribute_args *a, void *res)
{
	CUfunction function;
	CUkernel kernel;

	(void)res;
	if (!ck_driver.cuFuncSetAttribute || (a->kernel && !ck_driver.cuKernelSetAttribute))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (a->kernel)
		return cks_kernel_find(q, a->function, &kernel)
			       ? ck_driver.cuKernelSetAttribute((CUfunction_attribute)a->attrib,
								a->value, kernel, a->device)
			       : CUDA_ERROR_INVALID_HANDLE;
	return cks_function_find(q, a->function, &function)
		       ? ck_driver.cuFuncSetAttribute(function, (CUfunction_attribute)a->attrib,
						      a->value)
		       : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult read_attribute(const ck_attributes_args *a, CUfunction function, CUkernel kernel,
			       int attribute, int32_t *value)
{
	CUfunction_attribute which = (CUfunction_attribute)attribute;

	return a->kernel ? ck_driver.cuKernelGetAttribute(value, which, kernel, a->device)
			 : ck_driver.cuFuncGetAttribute(value, which, function);
}

CUresult ck_serve_attributes(struct cks_request *q, ck_attributes_args *a, ck_attributes_res *res)
{
	struct ck_function_attribute *all;
	CUfunction function = NULL;
	CUkernel kernel = NULL;

	if (a->kernel ? !ck_driver.cuKernelGetAttribute : !ck_driver.cuFuncGetAttribute)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!(a->kernel ? cks_kernel_find(q, a->function, &kernel)
			: cks_function_find(q, a->function, &function)))
		return CUDA_ERROR_INVALID_HANDLE;
	all = calloc(CU_FUNC_ATTRIBUTE_MAX, sizeof(*all));
	if (!all)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (int i = 0; i < CU_FUNC_ATTRIBUTE_MAX; i++)
		all[i].error = (int32_t)read_attribute(a, function, kernel, i, &all[i].value);
	res->values.values_val = (char *)all;
	res->values.values_len = CU_FUNC_ATTRIBUTE_MAX * sizeof(*all);
	return CUDA_SUCCESS;
}

/*
 * Load the code of a function that the client is about to use. A driver that loads lazily does so
 * at the first launch, for which it may wait until running work ends. Programs that cannot wait ask
 * for the attributes of their kernels first; here the client may know these. An error is that of
 * the launch, too.
 */
static void load_code(enum cks_kind kind, void *handle)
{
	CUfunction function = handle;

	if (!ck_driver.cuFuncLoad)
		return;
	if (kind == CK_KIND_KERNEL &&
	    (!ck_driver.cuKernelGetFunction || ck_driver.cuKernelGetFunction(&function, handle)))
		return;
	ck_driver.cuFuncLoad(function);
}

CUresult ck_serve_function(struct cks_request *q, ck_function_args *a, void *res)
{
	struct cks_object in;
	enum cks_kind kind;
	void *handle = NULL;
	CUresult err;

	(void)res;
	if (!cks_handles_find(q->session->handles, a->module, CK_LOADED, &in))
		return CUDA_ERROR_INVALID_HANDLE;
	kind = in.kind == CK_KIND_MODULE ? CK_KIND_FUNCTION : CK_KIND_KERNEL;
	if (kind == CK_KIND_FUNCTION && ck_driver.cuModuleGetFunction)
		err = ck_driver.cuModuleGetFunction((CUfunction *)&handle, in.handle, a->name);
	else if (kind == CK_KIND_KERNEL && ck_driver.cuLibraryGetKernel)
		err = ck_driver.cuLibraryGetKernel((CUkernel *)&handle, in.handle, a->name);
	else
		err = CUDA_ERROR_NOT_SUPPORTED;
	if (err) {
		ck_info("kernel %.200s: %s", a->name, cks_error_name(err));
		return err;
	}
	load_code(kind, handle);
	cks_faults_name(q->session, a->function, a->name);
	return cks_handles_put_child(q->session->handles, a->function, kind, in.ctx, handle,
				     a->module);
}

CUresult ck_serve_global(struct cks_request *q, ck_global_args *a, ck_global_res *res)
{
	CUdeviceptr address = 0;
	struct cks_object in;
	size_t size = 0;
	int managed = 0;
	CUresult err;

	if (!cks_handles_find(q->session->handles, a->module, CK_LOADED, &in))
		return CUDA_ERROR_INVALID_HANDLE;
	if (in.kind == CK_KIND_MODULE && ck_driver.cuModuleGetGlobal_v2)
		err = ck_driver.cuModuleGetGlobal_v2(&address, &size, in.handle, a->name);
	else if (in.kind == CK_KIND_LIBRARY && ck_driver.cuLibraryGetGlobal)
		err = ck_driver.cuLibraryGetGlobal(&address, &size, in.handle, a->name);
	else
		err = CUDA_ERROR_NOT_SUPPORTED;
	if (!err &&
	    (!ck_driver.cuPointerGetAttribute ||
	     ck_driver.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address)))
		managed = 0;
	res->dptr = address;
	res->bytes = size;
	res->managed = managed;
	return err;
}

CUresult ck_serve_managed_global(struct cks_request *q, ck_managed_global_args *a,
				 ck_managed_global_res *res)
{
	CUdeviceptr address = 0;
	struct cks_object in;
	size_t size = 0;
	CUresult err;

	if (!cks_handles_find(q->session->handles, a->module, CK_KIND_BIT(CK_KIND_LIBRARY), &in))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ck_driver.cuLibraryGetManaged)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuLibraryGetManaged(&address, &size, in.handle, a->name);
	res->dptr = address;
	res->bytes = size;
	return err;
}

CUresult ck_serve_library_module(struct cks_request *q, ck_library_module_args *a, void *res)
{
	CUlibrary library;
	CUmodule module = NULL;
	CUresult err;

	(void)res;
	if (!ck_driver.cuLibraryGetModule)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_library_find(q, a->library, &library))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuLibraryGetModule(&module, library);
	if (err)
		return err;
	return cks_handles_put_child(q->session->handles, a->module, CK_KIND_MODULE, q->ctx, module,
				     a->library);
}
