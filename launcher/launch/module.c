/*
 * launcher/launch/module.c - from a file or a text to a loaded module; see module.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "elf/ptxhead.h"
#include "launcher/compile/compile.h"
#include "launcher/launch/module.h"
#include "launcher/launch/params.h"
#include "launcher/text/file.h"

#define JIT_LOG 16384

/* The key by which a request's module is found. */
static int key_of(const struct ckl_request *request, struct ck_hash *key)
{
	const char *name = request->module ? request->module : request->source;
	char *options = request->options ? json_dumps(request->options, JSON_COMPACT) : NULL;
	json_t *both = json_pack("[bss?]", !!request->module, name, options);
	char *text = both ? json_dumps(both, JSON_COMPACT) : NULL;

	if (text)
		ck_hash(text, strlen(text), key);
	free(options);
	json_decref(both);
	free(text);
	return text ? 0 : -ENOMEM;
}

static void module_drop(struct ckl_modules *modules, struct ckl_module *module)
{
	if (module->handle)
		modules->driver->module_unload(module->handle);
	ck_kernels_free(&module->kernels);
	ckl_includes_free(&module->includes);
	*module = modules->items[--modules->count];
}

/* Whether none of its files has changed since. */
static bool is_current(const struct ckl_module *module, const struct ckl_request *request)
{
	if (module->includes.unknown ||
	    (request->module && !ckl_file_unchanged(request->module, &module->state)))
		return false;
	for (size_t i = 0; i < module->includes.count; i++) {
		if (!ckl_file_unchanged(module->includes.items[i].path,
					&module->includes.items[i].state))
			return false;
	}
	return true;
}

static struct ckl_module *find_module(struct ckl_modules *modules, const struct ck_hash *key,
				      const struct ckl_request *request)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct ckl_module *module = &modules->items[i];

		if (!ck_hash_equal(&module->key, key))
			continue;
		if (is_current(module, request))
			return module;
		module_drop(modules, module);
		return NULL;
	}
	return NULL;
}

static struct ckl_module *get_free_slot(struct ckl_modules *modules)
{
	struct ckl_module *oldest = &modules->items[0];

	if (modules->count == CK_MODULES_MAX) {
		for (size_t i = 1; i < modules->count; i++) {
			if (modules->items[i].used < oldest->used)
				oldest = &modules->items[i];
		}
		module_drop(modules, oldest);
	}
	memset(&modules->items[modules->count], 0, sizeof(modules->items[0]));
	return &modules->items[modules->count];
}

static bool has_suffix(const char *path, const char *suffix)
{
	size_t length = strlen(path), size = strlen(suffix);

	return length >= size && strcmp(path + length - size, suffix) == 0;
}

/* Whether it is CUDA C++: by the file's name, or as a text that does not begin as PTX does. */
static bool is_source(const struct ckl_request *request, const char *text, size_t size)
{
	struct ck_ptx_head head;

	if (request->module)
		return has_suffix(request->module, ".cu") || has_suffix(request->module, ".cpp") ||
		       has_suffix(request->module, ".cc");
	return ck_ptx_head(text, size, &head) < 0;
}

static int load_module(struct ckl_modules *modules, struct ckl_module *module, const void *image,
		       struct ckl_fail *fail)
{
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	char *log = calloc(1, JIT_LOG);
	void *values[] = {log, (void *)(uintptr_t)(JIT_LOG - 1)};
	CUresult result;

	if (!log)
		return ckl_fail_memory(fail);
	result = modules->driver->module_load(&module->handle, image, 2, options, values);
	if (!result) {
		free(log);
		return 0;
	}
	module->handle = NULL;
	ckl_fail_cuda(fail, CK_EXIT_MODULE, "module", result, "loading the module");
	if (*log && !fail->log)
		fail->log = log;
	else
		free(log);
	return -ENOENT;
}

/* Bytes of the file or text, NUL-terminated, malloc'ed. */
static char *read_bytes(const struct ckl_request *request, struct ckl_module *module, size_t *size,
			struct ckl_fail *fail)
{
	struct stat st;
	char *bytes;
	int ret;

	if (!request->module) {
		bytes = strdup(request->source);
		*size = strlen(request->source);
		if (!bytes)
			ckl_fail_memory(fail);
		return bytes;
	}
	ret = ckl_file_read(AT_FDCWD, request->module, &bytes, size, &st);
	if (ret < 0) {
		ckl_fail(fail, CK_EXIT_FILE, "file", "NO_FILE", "%.300s: %s", request->module,
			 ret == -EINVAL ? "no regular file; a pipe is for the command line's FILE"
					: strerror(-ret));
		return NULL;
	}
	ckl_file_state_of(&st, &module->state);
	return bytes;
}

/* PTX or machine code in the place of *bytes, and loaded. */
static int build_module(struct ckl_modules *modules, const struct ckl_request *request,
			struct ckl_module *module, char **bytes, size_t size, struct ckl_fail *fail)
{
	struct ckl_compile compile = {.text = *bytes,
				      .size = size,
				      .path = request->module,
				      .name = request->kernel,
				      .options = request->options,
				      .compiler = modules->compiler,
				      .sm = modules->driver->sm,
				      .includes = &module->includes};
	char *image = NULL;
	int ret = 0;

	if (is_source(request, *bytes, size)) {
		ret = ckl_compile_ptx(modules->cache, &compile, &image, &size, fail);
		if (ret < 0)
			return ret;
		free(*bytes);
		*bytes = image;
	}
	ckl_params_kernels(*bytes, size + 1, &module->kernels);
	module->unread = module->kernels.count == 0;
	image = NULL;
	if (modules->cache)
		image = ckl_compile_cubin(modules->cache, modules->driver, *bytes, size);
	ret = load_module(modules, module, image ? image : *bytes, fail);
	free(image);
	return ret;
}

struct ckl_module *ckl_modules_get(struct ckl_modules *modules, const struct ckl_request *request,
				   struct ckl_fail *fail)
{
	struct ckl_module *module;
	struct ck_hash key;
	size_t size = 0;
	char *bytes;
	int ret;

	if (key_of(request, &key) < 0) {
		ckl_fail_memory(fail);
		return NULL;
	}
	module = find_module(modules, &key, request);
	if (module) {
		module->used = ++modules->uses;
		return module;
	}
	module = get_free_slot(modules);
	module->key = key;
	module->used = ++modules->uses;
	bytes = read_bytes(request, module, &size, fail);
	if (!bytes)
		return NULL;
	ret = build_module(modules, request, module, &bytes, size, fail);
	free(bytes);
	if (ret < 0) {
		ck_kernels_free(&module->kernels);
		ckl_includes_free(&module->includes);
		return NULL;
	}
	modules->count++;
	return module;
}
