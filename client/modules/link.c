/*
 * client/modules/link.c - the driver's linker: inputs are sent to the server as they are added;
 * files are read here.
 *
 * The result stays with the link until its destruction, as in CUDA. Logs are written where the
 * options of cuLinkCreate point; the application keeps those buffers valid until then.
 */
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"
#include "client/modules/code.h"
#include "client/modules/jit.h"
#include "client/link/hooks.h"
#include "elf/image.h"

#define INPUT_MAX ((size_t)1 << 30) /* payload of one message */

static CUresult enter_link(CUlinkState state, uint64_t *ctx, struct ckc_link **link)
{
	CUresult err = ckc_enter(ctx);

	if (err)
		return err;
	*link = ckc_object_check(state, CK_OBJECT_LINK);
	return *link ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static void free_link(struct ckc_link *link)
{
	free(link->cubin);
	ckc_object_free(link);
}

static void forget_if_link(struct ckc_object *object, void *unused)
{
	(void)unused;
	if (object->kind == CK_OBJECT_LINK)
		free_link((struct ckc_link *)object);
}

static void forget_links(struct ckc_context *context)
{
	ckc_object_each(context, forget_if_link, NULL);
}
CK_ON_CONTEXT_END(CK_LAYER_MODULES, forget_links);

CK_EXPORT CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options,
				   void **optionValues, CUlinkState *stateOut)
{
	const struct ckc_jit jit = {numOptions, options, optionValues};
	struct ckc_jit_option packed[CK_JIT_OPTIONS];
	struct ckc_context *ctx;
	struct ckc_link *link;
	CUresult err = ckc_context_usable(&ctx);

	if (err)
		return err;
	if (!stateOut || (numOptions && (!options || !optionValues)))
		return CUDA_ERROR_INVALID_VALUE;
	link = ckc_object_new(CK_OBJECT_LINK, ctx);
	if (!link)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ckc_jit_logs(&jit, &link->info, &link->error);
	err = ck_wire_link_create(ctx->object.id, link->object.id, packed,
				  ckc_jit_pack(&jit, true, packed) * sizeof(packed[0]));
	if (err)
		ckc_object_free(link);
	else
		*stateOut = (CUlinkState)link;
	return err;
}

/* Write the compiler's logs so far, and pass on @err. */
static CUresult write_logs(struct ckc_link *link, CUresult err, void *info, size_t info_size,
			   void *error, size_t error_size)
{
	ckc_jit_log(&link->info, info, info_size);
	ckc_jit_log(&link->error, error, error_size);
	free(info);
	free(error);
	return err;
}

static CUresult add_input(struct ckc_link *link, uint64_t ctx, CUjitInputType type,
			  const void *data, size_t size, const char *name,
			  const struct ckc_jit *jit)
{
	struct ckc_jit_option packed[CK_JIT_OPTIONS];
	ck_link_add_args a = {.head.ctx = ctx, .link = link->object.id, .type = (u_int)type};
	ck_link_add_res r;
	CUresult err;

	if (size > INPUT_MAX || strlen(name) >= 4000)
		return CUDA_ERROR_INVALID_VALUE;
	a.name = (char *)(uintptr_t)name;
	a.options.options_val = (char *)packed;
	a.options.options_len = (u_int)(ckc_jit_pack(jit, false, packed) * sizeof(packed[0]));
	err = ck_wire_link_add(&a, data, size, &r);
	return write_logs(link, err, r.info_log.info_log_val, r.info_log.info_log_len,
			  r.error_log.error_log_val, r.error_log.error_log_len);
}

CK_EXPORT CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
				    const char *name, unsigned int numOptions,
				    CUjit_option *options, void **optionValues)
{
	const struct ckc_jit jit = {numOptions, options, optionValues};
	struct ck_image image;
	struct ckc_link *link;
	uint64_t ctx;
	CUresult err = enter_link(state, &ctx, &link);

	if (err)
		return err;
	if (!data || !size || (unsigned int)type >= CU_JIT_NUM_INPUT_TYPES)
		return CUDA_ERROR_INVALID_VALUE;
	/* A wrapper points to its container in this process. */
	if (type == CU_JIT_INPUT_FATBINARY && size >= 16 && ck_image_classify(data, &image) == 0 &&
	    image.kind == CK_IMAGE_CONTAINER)
		return add_input(link, ctx, type, image.data, image.size, name ? name : "", &jit);
	return add_input(link, ctx, type, data, size, name ? name : "", &jit);
}

CK_EXPORT CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
				    unsigned int numOptions, CUjit_option *options,
				    void **optionValues)
{
	const struct ckc_jit jit = {numOptions, options, optionValues};
	struct ckc_link *link;
	void *image;
	size_t size;
	uint64_t ctx;
	CUresult err = enter_link(state, &ctx, &link);

	if (err)
		return err;
	if (!path || (unsigned int)type >= CU_JIT_NUM_INPUT_TYPES)
		return CUDA_ERROR_INVALID_VALUE;
	err = ckc_code_read_file(path, &image, &size);
	if (err)
		return err;
	err = size ? add_input(link, ctx, type, image, size, path, &jit) : CUDA_ERROR_INVALID_IMAGE;
	free(image);
	return err;
}

/* Fetch the linked image from the server's driver, in pieces. */
static CUresult fetch_image(struct ckc_link *link, uint64_t ctx, size_t size)
{
	char *cubin = calloc(1, size + 64); /* classify reads a few bytes past the end */
	void *piece;
	size_t n;

	if (!cubin)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t at = 0; at < size; at += n) {
		CUresult err = ck_wire_link_fetch(ctx, link->object.id, at, &piece, &n);

		if (!err && (n == 0 || n > size - at))
			err = CUDA_ERROR_UNKNOWN;
		if (!err)
			memcpy(cubin + at, piece, n);
		free(piece);
		if (err) {
			free(cubin);
			return err;
		}
	}
	link->cubin = cubin;
	link->size = size;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
	void *info = NULL, *error = NULL;
	size_t info_size = 0, error_size = 0, size = 0;
	struct ckc_link *link;
	uint64_t ctx;
	CUresult err = enter_link(state, &ctx, &link);

	if (err)
		return err;
	if (!cubinOut)
		return CUDA_ERROR_INVALID_VALUE;
	if (link->cubin) /* as in driver 580 */
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_wire_link_complete(ctx, link->object.id, &size, &info, &info_size, &error,
				    &error_size);
	err = write_logs(link, err, info, info_size, error, error_size);
	if (!err)
		err = fetch_image(link, ctx, size);
	if (err)
		return err;
	*cubinOut = link->cubin;
	if (sizeOut)
		*sizeOut = link->size;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuLinkDestroy(CUlinkState state)
{
	struct ckc_link *link;
	uint64_t ctx;
	CUresult err = enter_link(state, &ctx, &link);

	if (err)
		return err;
	err = ck_wire_cuLinkDestroy(ctx, link->object.id);
	free_link(link);
	return err;
}
