/*
 * launcher/launch/params.c - kernels' parameters from the module, arguments into them; see
 * params.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "elf/cubin.h"
#include "elf/fatbin.h"
#include "elf/image.h"
#include "elf/ptxhead.h"
#include "launcher/launch/params.h"
#include "util/util.h"

/* One entry of a fat binary; true when its kernels are known now. */
static bool entry_kernels(const struct ck_fatbin_entry *entry, unsigned kind,
			  struct ck_kernels *out)
{
	struct ck_fatbin_choice choice;
	int ret;

	if (entry->kind != kind || ck_fatbin_extract(entry, &choice) < 0)
		return false;
	ret = kind == CK_FATBIN_PTX ? ck_ptx_kernels(choice.data, choice.size, out)
				    : ck_cubin_kernels(choice.data, choice.size, out);
	ck_fatbin_choice_free(&choice);
	return ret == 0;
}

static void container_kernels(const void *container, size_t size, struct ck_kernels *out)
{
	static const unsigned kinds[] = {CK_FATBIN_PTX, CK_FATBIN_ELF};
	struct ck_fatbin_entry entry;
	struct ck_fatbin_iter it;

	for (size_t i = 0; i < CK_ARRAY_SIZE(kinds); i++) {
		if (ck_fatbin_open(container, size, &it) < 0)
			return;
		while (ck_fatbin_next(&it, &entry) == 1) {
			if (entry_kernels(&entry, kinds[i], out))
				return;
		}
	}
}

void ckl_params_kernels(const void *data, size_t size, struct ck_kernels *out)
{
	struct ck_image image;

	*out = (struct ck_kernels){0};
	if (ck_image_classify_bounded(data, size, &image) < 0)
		return;
	if (image.kind == CK_IMAGE_PTX)
		ck_ptx_kernels(image.data, image.size, out);
	else if (image.kind == CK_IMAGE_ELF)
		ck_cubin_kernels(image.data, image.size, out);
	else
		container_kernels(image.data, image.size, out);
}

/* Whether @symbol is @name as C++ writes a function outside of any namespace. */
static bool is_mangled(const char *symbol, const char *name)
{
	char start[32];
	int n = snprintf(start, sizeof(start), "_Z%zu", strlen(name));

	return strncmp(symbol, start, (size_t)n) == 0 &&
	       strncmp(symbol + n, name, strlen(name)) == 0;
}

static void list_kernels(const struct ck_kernels *kernels, char *text, size_t room)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < kernels->count && used < room; i++)
		used += (size_t)snprintf(text + used, room - used, "%s%s", i ? ", " : "",
					 kernels->items[i].name);
}

const struct ck_kernel *ckl_params_find(const struct ck_kernels *kernels, const char *name,
					struct ckl_fail *fail)
{
	const struct ck_kernel *found = NULL;
	size_t matches = 0;
	char list[256];

	for (size_t i = 0; i < kernels->count; i++) {
		if (strcmp(kernels->items[i].name, name) == 0)
			return &kernels->items[i];
		if (is_mangled(kernels->items[i].name, name)) {
			found = &kernels->items[i];
			matches++;
		}
	}
	if (matches == 1)
		return found;
	list_kernels(kernels, list, sizeof(list));
	ckl_fail(fail, CK_EXIT_MODULE, "kernel", "CUDA_ERROR_NOT_FOUND",
		 "%s kernel is named %.100s; the module has: %s", matches ? "more than one" : "no",
		 name, kernels->count ? list : "none");
	return NULL;
}

int ckl_params_check(const struct ck_kernel *kernel, const struct ckl_request *request,
		     struct ckl_fail *fail)
{
	if (request->argc != kernel->param_count)
		return ckl_fail_input(fail, "%s takes %u arguments, and %zu are given",
				      kernel->name, kernel->param_count, request->argc);
	for (size_t i = 0; i < request->argc; i++) {
		const struct ck_kernel_param *param = &kernel->params[i];

		if (!request->args[i].array && !request->args[i].type &&
		    param->kind == CK_PARAM_POINTER)
			return ckl_fail_input(fail,
					      "argument %zu is a number, and the kernel has a "
					      "pointer there",
					      i);
		if (request->args[i].array && (param->size != 8 || param->kind == CK_PARAM_FLOAT ||
					       param->kind == CK_PARAM_BYTES))
			return ckl_fail_input(fail,
					      "argument %zu, %s, is an array, and the kernel "
					      "has no pointer there",
					      i, request->args[i].name);
	}
	return 0;
}

/* The type that a number without one gets. CK_TYPE_NONE: the module does not say. */
static enum ckl_type type_of(const struct ck_kernel_param *param)
{
	static const struct {
		enum ck_param_kind kind;
		uint32_t size;
		enum ckl_type type;
	} rows[] = {
		{CK_PARAM_FLOAT, 2, CK_TYPE_F16},   {CK_PARAM_FLOAT, 4, CK_TYPE_F32},
		{CK_PARAM_FLOAT, 8, CK_TYPE_F64},   {CK_PARAM_INTEGER, 1, CK_TYPE_U8},
		{CK_PARAM_INTEGER, 2, CK_TYPE_U16}, {CK_PARAM_INTEGER, 4, CK_TYPE_U32},
		{CK_PARAM_INTEGER, 8, CK_TYPE_U64},
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		if (rows[i].kind == param->kind && rows[i].size == param->size)
			return rows[i].type;
	}
	return CK_TYPE_NONE;
}

int ckl_params_scalar(const struct ck_kernel *kernel, const struct ckl_request *request,
		      size_t index, void *out, struct ckl_fail *fail)
{
	const struct ck_kernel_param *param = &kernel->params[index];
	const struct ckl_arg *arg = &request->args[index];
	enum ckl_type type = arg->type ? arg->type : type_of(param);
	const char *text = arg->text ? arg->text : arg->number;
	char what[32];

	if (type == CK_TYPE_NONE)
		return ckl_fail_input(fail,
				      "argument %zu: the module does not say what its %u "
				      "bytes are; give it a \"type\"",
				      index, param->size);
	if (arg->count * ckl_type_size(type) != param->size)
		return ckl_fail_input(fail,
				      "argument %zu: %zu of type %s are not the parameter's "
				      "%u bytes",
				      index, arg->count, ckl_type_name(type), param->size);
	snprintf(what, sizeof(what), "argument %zu", index);
	if (arg->list)
		return ckl_type_read_all(type, text, arg->text_size, arg->count, out, what, fail);
	if (!ckl_type_read(type, text, arg->text_size, !arg->type, out))
		return ckl_fail_input(fail, "argument %zu: %.*s is not a %s of %u bytes", index,
				      (int)ck_min(arg->text_size, (size_t)40), text,
				      ckl_type_is_float(type) ? "number" : "whole number",
				      param->size);
	return 0;
}
