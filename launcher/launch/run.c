/*
 * launcher/launch/run.c - one request after the other: arguments in, launch, results out.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "launcher/driver/driver.h"
#include "launcher/launch/params.h"
#include "launcher/launch/run.h"
#include "launcher/request/reply.h"
#include "util/until.h"

#define SHARED_FREE 49152	   /* bytes that a block may have without asking for more */
#define ATTRIBUTE_DYNAMIC_SHARED 8 /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */

double ckl_milliseconds(void)
{
	return (double)ck_now_ns() / 1e6;
}

/* The driver's view of the parameters, where it has one, against ours. */
static int layout_check(struct ckl_runner *runner, CUfunction function,
			const struct ck_kernel *kernel, struct ckl_fail *fail)
{
	size_t offset, size;

	for (size_t i = 0; runner->driver.param_info && i < kernel->param_count; i++) {
		if (runner->driver.param_info(function, i, &offset, &size) != CUDA_SUCCESS)
			return 0;
		if (size != kernel->params[i].size)
			return ckl_fail(
				fail, CK_EXIT_MODULE, "kernel", "CUDA_ERROR_INVALID_IMAGE",
				"%s: parameter %zu has %zu bytes for the driver and %u in the "
				"module",
				kernel->name, i, size, kernel->params[i].size);
	}
	return 0;
}

/* The kernel that the driver was asked for before, by its name at that time, or NULL. */
static const struct ck_kernel *layout_known(const struct ck_kernels *kernels, const char *name)
{
	for (size_t i = 0; i < kernels->count; i++) {
		if (strcmp(kernels->items[i].name, name) == 0)
			return &kernels->items[i];
	}
	return NULL;
}

/* The parameters of a kernel that only the driver can read: sizes, no types. */
static const struct ck_kernel *layout_ask(struct ckl_runner *runner, CUfunction function,
					  const char *name, struct ck_kernels *kernels,
					  struct ckl_fail *fail)
{
	struct ck_kernel asked = {0}, *kernel;
	struct ck_kernel_param *params;
	size_t offset, size;

	while (runner->driver.param_info && asked.param_count < CK_ARGS_MAX &&
	       runner->driver.param_info(function, asked.param_count, &offset, &size) ==
		       CUDA_SUCCESS) {
		params = reallocarray(asked.params, asked.param_count + 1, sizeof(*params));
		if (!params)
			goto no_memory;
		asked.params = params;
		params[asked.param_count++] = (struct ck_kernel_param){.offset = (uint32_t)offset,
								       .size = (uint32_t)size};
		asked.param_bytes = (uint32_t)(offset + size);
	}
	kernel = ck_kernels_add(kernels, name, strlen(name));
	if (!kernel)
		goto no_memory;
	asked.name = kernel->name;
	*kernel = asked;
	return kernel;
no_memory:
	free(asked.params);
	ckl_fail_memory(fail);
	return NULL;
}

/* Function and parameters of the request's kernel. */
static const struct ck_kernel *find_kernel(struct ckl_runner *runner, struct ckl_module *module,
					   const struct ckl_request *request, CUfunction *function,
					   struct ckl_fail *fail)
{
	const struct ck_kernel *kernel = NULL;
	CUresult result;

	if (!module->unread) {
		kernel = ckl_params_find(&module->kernels, request->kernel, fail);
		if (!kernel)
			return NULL;
	}
	result = runner->driver.get_function(function, module->handle,
					     kernel ? kernel->name : request->kernel);
	if (result) {
		ckl_fail_cuda(fail, CK_EXIT_MODULE, "kernel", result, request->kernel);
		return NULL;
	}
	if (kernel)
		return layout_check(runner, *function, kernel, fail) < 0 ? NULL : kernel;
	kernel = layout_known(&module->kernels, request->kernel);
	return kernel ? kernel
		      : layout_ask(runner, *function, request->kernel, &module->kernels, fail);
}

/*
 * Device memory and values of all arguments; params[i] points to the bytes that the launch reads.
 */
static int arguments_in(struct ckl_runner *runner, const struct ck_kernel *kernel,
			const struct ckl_request *request, struct ckl_buffer *buffers, char *values,
			void **params, struct ckl_fail *fail)
{
	int ret = ckl_params_check(kernel, request, fail);

	/* All that can be wrong with the request is found before the GPU works on it. */
	for (size_t i = 0; ret == 0 && i < request->argc; i++) {
		params[i] = values + kernel->params[i].offset;
		if (!request->args[i].array)
			ret = ckl_params_scalar(kernel, request, i, params[i], fail);
	}
	for (size_t i = 0; ret == 0 && i < request->argc; i++) {
		if (!request->args[i].array)
			continue;
		ret = ckl_buffer_fill(runner, &request->args[i], &buffers[i], fail);
		memcpy(params[i], &buffers[i].address, sizeof(buffers[i].address));
	}
	return ret;
}

/* The end of the kernel that runs. */
static int wait_for(struct ckl_runner *runner, struct ckl_fail *fail)
{
	CUresult result = runner->driver.synchronize();
	const char *kernel = runner->running;

	runner->running = NULL;
	if (!result)
		return 0;
	runner->lost = true;
	return ckl_fail_cuda(fail, CK_EXIT_LAUNCH, "exec", result, kernel);
}

/* Whether something is copied back: the copy waits for the kernel, and reports its error. */
static bool has_results(const struct ckl_request *request)
{
	for (size_t i = 0; i < request->argc; i++) {
		if (request->args[i].array && request->args[i].returned)
			return true;
	}
	return false;
}

/* With timing, wait here to measure the kernel alone; else the first copy of a result waits. */
static int launch_kernel(struct ckl_runner *runner, CUfunction function,
			 const struct ck_kernel *kernel, const struct ckl_request *request,
			 void **params, struct ckl_fail *fail)
{
	const struct ckl_driver *driver = &runner->driver;
	const uint32_t *grid = request->grid, *block = request->block;
	CUresult result = CUDA_SUCCESS;

	if (request->shared + kernel->shared > SHARED_FREE && driver->set_attribute)
		result = driver->set_attribute(function, ATTRIBUTE_DYNAMIC_SHARED,
					       (int)request->shared);
	if (!result)
		result = driver->launch(function, grid[0], grid[1], grid[2], block[0], block[1],
					block[2], request->shared, NULL, params, NULL);
	if (result) {
		char what[160], limit[80];
		int ret;

		snprintf(what, sizeof(what), "grid %u %u %u, block %u %u %u, %u bytes shared",
			 grid[0], grid[1], grid[2], block[0], block[1], block[2], request->shared);
		ckl_limits_explain(driver, request, limit, sizeof(limit));
		ret = ckl_fail_cuda(fail, CK_EXIT_LAUNCH, "launch", result, what);
		ckl_fail_add(fail, limit);
		return ret;
	}
	runner->running = request->kernel;
	return has_results(request) && !request->timing ? 0 : wait_for(runner, fail);
}

/* From here on everything is allocated that the launch needs. */
static int run_with(struct ckl_runner *runner, CUfunction function, const struct ck_kernel *kernel,
		    const struct ckl_request *request, struct ckl_buffer *buffers, void **params,
		    struct ckl_timing *timing, struct ckl_fail *fail)
{
	char *values = calloc(1, CK_KERNEL_PARAM_MAX + 8);
	double began = ckl_milliseconds();
	int ret;

	if (!values)
		return ckl_fail_memory(fail);
	ret = arguments_in(runner, kernel, request, buffers, values, params, fail);
	timing->to_device = ckl_milliseconds() - began;
	if (ret == 0) {
		began = ckl_milliseconds();
		ret = launch_kernel(runner, function, kernel, request, params, fail);
		timing->kernel = ckl_milliseconds() - began;
	}
	free(values);
	return ret;
}

static int run_launch(struct ckl_runner *runner, const struct ckl_request *request, bool frame,
		      uint64_t id, struct ckl_out *out, struct ckl_fail *fail)
{
	struct ckl_timing timing = {.load = ckl_milliseconds()};
	struct ckl_module *module = ckl_modules_get(&runner->modules, request, fail);
	struct ckl_buffer *buffers = calloc(request->argc + 1, sizeof(*buffers));
	void **params = calloc(request->argc + 1, sizeof(*params));
	const struct ck_kernel *kernel = NULL;
	CUfunction function;
	int ret = -EINVAL;

	if (module)
		kernel = find_kernel(runner, module, request, &function, fail);
	timing.load = ckl_milliseconds() - timing.load;
	if (!buffers || !params)
		ret = ckl_fail_memory(fail);
	else if (kernel)
		ret = run_with(runner, function, kernel, request, buffers, params, &timing, fail);
	if (ret == 0)
		ret = ckl_result_write(runner, request, buffers, frame, id, &timing, out, fail);
	if (ret == 0 && runner->running) /* all results are empty */
		ret = wait_for(runner, fail);
	runner->running = NULL;
	for (size_t i = 0; buffers && i < request->argc; i++)
		ckl_buffer_release(runner, &request->args[i], &buffers[i],
				   ret == 0 && request->args[i].keep);
	free(buffers);
	free(params);
	return ret;
}

/* Arrays that were kept, fetched. */
static int run_read(struct ckl_runner *runner, const struct ckl_request *request, bool frame,
		    struct ckl_out *out, struct ckl_fail *fail)
{
	struct ckl_buffer *buffers = calloc(request->argc + 1, sizeof(*buffers));
	struct ckl_timing timing = {0};
	int ret = buffers ? 0 : ckl_fail_memory(fail);

	for (size_t i = 0; ret == 0 && i < request->argc; i++)
		ret = ckl_buffer_fill(runner, &request->args[i], &buffers[i], fail);
	if (ret == 0)
		ret = ckl_result_write(runner, request, buffers, frame, 0, &timing, out, fail);
	for (size_t i = 0; buffers && i < request->argc; i++)
		ckl_buffer_release(runner, &request->args[i], &buffers[i], false);
	free(buffers);
	return ret;
}

static int run_free(struct ckl_runner *runner, const struct ckl_request *request, bool frame,
		    struct ckl_out *out, struct ckl_fail *fail)
{
	static const char reply[] = "{\"results\":{}}";

	for (size_t i = 0; i < request->argc; i++) {
		if (ckl_buffer_forget(runner, request->args[i].name) < 0)
			return ckl_fail_input(fail, "no array %.200s is kept on the GPU",
					      request->args[i].name);
	}
	ckl_reply_document(out, frame, reply, strlen(reply));
	return 0;
}

enum ckl_exit ckl_run(struct ckl_runner *runner, struct ckl_request *request, bool frame,
		      uint64_t id, struct ckl_out *out, struct ckl_fail *fail)
{
	size_t start = out->size;
	int ret = fail->exit ? -EINVAL : 0;

	if (ret == 0 && request->command == CK_LAUNCH)
		ret = run_launch(runner, request, frame, id, out, fail);
	else if (ret == 0 && request->command == CK_READ)
		ret = run_read(runner, request, frame, out, fail);
	else if (ret == 0)
		ret = run_free(runner, request, frame, out, fail);
	if (ret == 0 && !out->failed)
		return CK_EXIT_OK;
	/* Nothing of a result that broke off stays. */
	out->size = start;
	out->failed = false;
	if (!fail->exit)
		ckl_fail_memory(fail);
	ckl_reply_fail(out, frame, id, fail);
	return fail->exit;
}
