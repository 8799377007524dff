/*
 * emu/modules/link.c - the linker of the driver: its input is PTX units, and its output, the
 * "cubin", is their joined text, which a module can be loaded from. Of libraries it knows the
 * device runtime.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/modules/device_runtime.h"
#include "emu/core/emu.h"
#include "emu/modules/function.h"

struct link {
	struct ck_emu_object base;
	struct ck_emu_jit jit; /* where the application wants the logs */
	char *text;	       /* NULL before the first input */
	size_t size;	       /* without the NUL */
	bool complete;
};

static void link_free(struct ck_emu_object *object)
{
	free(((struct link *)object)->text);
	free(object);
}

static CUresult acquire_link(CUlinkState state, struct link **link)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	*link = ck_emu_object_get(state, CK_EMU_LINK);
	return *link ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues,
			 CUlinkState *stateOut)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	struct link *link;

	if (result != CUDA_SUCCESS)
		return result;
	if (!stateOut)
		return CUDA_ERROR_INVALID_VALUE;
	link = calloc(1, sizeof(*link));
	if (!link)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_emu_object_init(&link->base, CK_EMU_LINK, context, link_free);
	result = ck_emu_jit_read(numOptions, options, optionValues, &link->jit);
	if (result == CUDA_SUCCESS)
		result = ck_emu_object_publish(&link->base);
	if (result == CUDA_SUCCESS)
		*stateOut = (CUlinkState)link;
	else
		ck_emu_object_put(&link->base);
	return result;
}

/* One unit behind those before it, on a line of its own. */
static CUresult append_unit_text(struct link *link, const char *text, size_t size)
{
	char *bytes = realloc(link->text, link->size + size + 2);

	if (!bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	link->text = bytes;
	memcpy(bytes + link->size, text, size);
	link->size += size;
	bytes[link->size++] = '\n';
	bytes[link->size] = '\0';
	return CUDA_SUCCESS;
}

/* Another unit may define the names that this one lacks. */
static bool lacks_others(const char *text)
{
	char log[256] = "";
	struct ck_ptx_module *ptx;
	int ret = ck_ptx_parse(text, strlen(text), log, sizeof(log), &ptx);

	if (ret == 0)
		ck_ptx_destroy(ptx);
	return ret < 0 && strstr(log, "unresolved external");
}

/* @image: PTX text or a fat binary, with a NUL and some zeroes behind it. */
static CUresult add_ptx_unit(struct link *link, CUjitInputType type, const char *image)
{
	struct ck_emu_image opened;
	struct ck_ptx_module *ptx;
	CUresult result = ck_emu_image_open(image, &link->jit, &opened);

	if (result == CUDA_ERROR_INVALID_IMAGE && type == CU_JIT_INPUT_PTX)
		return CUDA_ERROR_INVALID_PTX;
	if (result != CUDA_SUCCESS)
		return result;
	/* report the unit's own faults here, those of the whole at the end */
	if (!lacks_others(opened.text)) {
		result = ck_emu_image_parse(opened.text, &link->jit, &ptx);
		if (result == CUDA_SUCCESS)
			ck_ptx_destroy(ptx);
	}
	if (result == CUDA_SUCCESS)
		result = append_unit_text(link, opened.text, strlen(opened.text));
	ck_emu_image_close(&opened);
	return result;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
			  const char *name, unsigned int numOptions, CUjit_option *options,
			  void **optionValues)
{
	struct link *link;
	CUresult result = acquire_link(state, &link);
	char *copy;

	(void)name;
	(void)options;
	(void)optionValues;
	(void)numOptions;
	if (result != CUDA_SUCCESS)
		return result;
	if (!data || !size || (unsigned int)type >= CU_JIT_NUM_INPUT_TYPES || link->complete) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else if (type == CU_JIT_INPUT_LIBRARY && ck_emu_is_device_runtime(data, size)) {
		result = append_unit_text(link, ck_emu_device_runtime,
					  strlen(ck_emu_device_runtime));
	} else if (type != CU_JIT_INPUT_PTX && type != CU_JIT_INPUT_FATBINARY) {
		result = CUDA_ERROR_NO_BINARY_FOR_GPU; /* machine code, of which we run none */
	} else {
		copy = calloc(1, size + 64);
		if (copy)
			memcpy(copy, data, size);
		result = copy ? add_ptx_unit(link, type, copy) : CUDA_ERROR_OUT_OF_MEMORY;
		free(copy);
	}
	ck_emu_object_put(&link->base);
	return result;
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
			  unsigned int numOptions, CUjit_option *options, void **optionValues)
{
	char *image;
	CUresult result;
	size_t size;

	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	result = ck_emu_image_read(path, &image, &size);
	if (result != CUDA_SUCCESS)
		return result;
	/* text ends where its terminator is */
	if (type == CU_JIT_INPUT_PTX)
		size = strlen(image);
	result =
		cuLinkAddData_v2(state, type, image, size, path, numOptions, options, optionValues);
	free(image);
	return result;
}

CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
	struct ck_ptx_module *ptx;
	struct link *link;
	CUresult result = acquire_link(state, &link);

	if (result != CUDA_SUCCESS)
		return result;
	if (!cubinOut || !link->text) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else if (link->complete) {
		result = CUDA_ERROR_INVALID_HANDLE; /* as driver 580 has it */
	} else {
		result = ck_emu_image_parse(link->text, &link->jit, &ptx);
		/* every unit is right by itself: they do not go together */
		if (result == CUDA_ERROR_INVALID_PTX)
			result = CUDA_ERROR_INVALID_IMAGE;
	}
	if (result == CUDA_SUCCESS) {
		ck_ptx_destroy(ptx);
		link->complete = true;
		*cubinOut = link->text;
		if (sizeOut)
			*sizeOut = link->size + 1;
	}
	ck_emu_object_put(&link->base);
	return result;
}

CUresult cuLinkDestroy(CUlinkState state)
{
	struct link *link;
	CUresult result = acquire_link(state, &link);

	if (result != CUDA_SUCCESS)
		return result;
	if (ck_emu_object_retract(&link->base))
		ck_emu_object_put(&link->base);
	else
		result = CUDA_ERROR_INVALID_HANDLE;
	ck_emu_object_put(&link->base);
	return result;
}
