/*
 * client/modules/code.c - turn the image that the application passes into code on the server (D8).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/modules/code.h"
#include "client/modules/state.h"
#include "client/link/client.h"
#include "client/wire/compression.h"
#include "elf/cubin.h"
#include "elf/fatbin.h"
#include "elf/image.h"
#include "elf/ptxhead.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/map.h"

CK_LOG_DEFINE("client");

#define PIECE (4u << 20) /* an image is sent in messages of this payload */

static CUresult from_errno(int ret)
{
	return ret == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_IMAGE;
}

/* The emulated GPU has no code to run: log @why, once for each program. */
static void warn_of_code(const char *why)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&told))
		ck_warn("the server's GPU is emulated: it runs only PTX of compute capability 9.0 "
			"or below, and %s",
			why);
}

static int is_jit_linker(struct dl_phdr_info *info, size_t size, void *found)
{
	(void)size;
	*(bool *)found = info->dlpi_name && strstr(info->dlpi_name, "/libnvJitLink.so");
	return *(bool *)found;
}

/* A cubin alone, and not a part of a fat binary, was made by the program itself. */
static void warn_of_cubin(void)
{
	bool linked = false;

	dl_iterate_phdr(is_jit_linker, &linked);
	warn_of_code(
		linked ? "this program has made machine code with nvJitLink, as Numba does: with "
			 "`cricket run -s emu`, or as docs/emulator.md says, it makes PTX"
		       : "this program has made machine code: docs/emulator.md names the "
			 "settings with which frameworks make PTX");
}

/* Choose the one image in @image that @device would use; the caller frees *@out. */
static CUresult choose_image(const void *image, CUdevice device, struct ck_fatbin_choice *out)
{
	struct ck_fatbin_device target = {
		(unsigned)ckc_gpu_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
		(unsigned)ckc_gpu_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
	};
	struct ck_image found;
	unsigned sm;
	int ret = ck_image_classify(image, &found);

	if (ret < 0)
		return from_errno(ret);
	if (found.kind == CK_IMAGE_CONTAINER) {
		bool cubin = ckc_client_current()->hello.accepts_cubin;

		/* the result of nvcc's linker contains machine code only; PTX is in the parts */
		ret = found.prelinked && !cubin
			      ? -ENOENT
			      : ck_fatbin_choose(found.data, found.size, target, cubin, out);
		if (ret < 0 && ret != -ENOMEM && found.prelinked)
			ret = ck_fatbin_join(found.prelinked, target, out);
		return ret == 0		? CUDA_SUCCESS
		       : ret == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY
					: CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	*out = (struct ck_fatbin_choice){
		.kind = found.kind, .data = found.data, .size = found.size};
	if (found.kind != CK_IMAGE_ELF)
		return CUDA_SUCCESS;
	if (ck_cubin_sm(found.data, found.size, &sm) < 0)
		return CUDA_ERROR_INVALID_IMAGE;
	if (!ckc_client_current()->hello.accepts_cubin) {
		warn_of_cubin();
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	if (sm / 10 != target.major || sm % 10 > target.minor)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	return CUDA_SUCCESS;
}

CUresult ckc_code_missing(void)
{
	if (!ckc_client_current()->hello.accepts_cubin)
		warn_of_code("a module of this program has none. Use a server with a real GPU, or "
			     "compile with nvcc -gencode arch=compute_90,code=compute_90");
	return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

/* Read the kernels of the image, and index them by name. */
static CUresult read_kernels(struct ckc_code *code, const struct ck_fatbin_choice *c)
{
	int ret = code->ptx ? ck_ptx_kernels(c->data, c->size, &code->kernels)
			    : ck_cubin_kernels(c->data, c->size, &code->kernels);

	if (ret < 0)
		return ret == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY
		       : code->ptx    ? CUDA_ERROR_INVALID_PTX
				      : CUDA_ERROR_INVALID_IMAGE;
	if (code->kernels.print)
		ckc_client_current()->modules->printing.possible = true;
	if (code->kernels.print & CK_PRINTS_TEXT)
		ckc_client_current()->prints = true;
	code->by_name = ck_map_create();
	if (!code->by_name)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < code->kernels.count; i++) {
		const char *name = code->kernels.items[i].name;

		ret = ck_map_insert(code->by_name, name, strlen(name), (void *)(i + 1));
		if (ret < 0 && ret != -EEXIST)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

/* Send the image in compressed blocks; a block that does not become shorter travels as it is. */
static CUresult send_blocks(const struct ckc_code *code, const struct ck_fatbin_choice *c,
			    struct ckc_pack_run *run)
{
	CUresult err = CUDA_SUCCESS;

	for (size_t at = 0; at < c->size && !err; at += CK_PACK_BLOCK) {
		size_t n = ck_min(c->size - at, (size_t)CK_PACK_BLOCK), length;
		const char *bytes = (const char *)c->data + at;
		const void *packed;

		length = ckc_pack_next(run, bytes, n, &packed);
		err = length ? ck_wire_image_packed(0, code->hash, c->size, at, n, packed, length)
			     : ck_wire_image(0, code->hash, c->size, at, bytes, n);
	}
	return err;
}

/* Send the image compressed, if that pays; false: nothing was sent. */
static bool send_packed(const struct ckc_code *code, const struct ck_fatbin_choice *c,
			CUresult *err)
{
	struct ckc_client *client = ckc_client_current();
	struct ckc_pack_run run;

	if (!ckc_compression_pays(client, CK_PROC_image_packed, 1, 1) &&
	    !ckc_compression_pays_unmeasured(client, CK_PROC_image_packed))
		return false;
	if (!ckc_pack_begin(&run, client))
		return false;
	*err = send_blocks(code, c, &run);
	ckc_pack_end(&run);
	return true;
}

static CUresult send_image(const struct ckc_code *code, const struct ck_fatbin_choice *c)
{
	CUresult packed;

	if (send_packed(code, c, &packed))
		return packed;
	for (size_t at = 0; at < c->size; at += PIECE) {
		size_t n = c->size - at < PIECE ? c->size - at : PIECE;
		CUresult err =
			ck_wire_image(0, code->hash, c->size, at, (const char *)c->data + at, n);

		if (err)
			return err;
	}
	return CUDA_SUCCESS;
}

/* One upload at a time: a thread that finds an image on the server relies on all of it being
 * sent. */
static CUresult upload_image(const struct ckc_code *code, const struct ck_fatbin_choice *chosen)
{
	struct ckc_client *c = ckc_client_current();
	CUresult err = CUDA_SUCCESS;

	ck_lock(&c->modules->upload_lock);
	if (!ckc_session_has_image(c, code->hash))
		err = send_image(code, chosen);
	ck_unlock(&c->modules->upload_lock);
	return err;
}

CUresult ckc_code_load(const void *image, CUdevice device, struct ckc_code **out)
{
	struct ckc_code *code = calloc(1, sizeof(*code));
	struct ck_fatbin_choice chosen = {0};
	struct ck_hash hash;
	CUresult err;

	if (!code)
		return CUDA_ERROR_OUT_OF_MEMORY;
	code->users = 1;
	err = choose_image(image, device, &chosen);
	if (!err) {
		code->ptx = chosen.kind == CK_IMAGE_PTX;
		ck_hash(chosen.data, chosen.size, &hash);
		memcpy(code->hash, hash.bytes, sizeof(code->hash));
		err = read_kernels(code, &chosen);
	}
	if (!err)
		err = upload_image(code, &chosen);
	if (!err)
		ck_debug("image of %zu bytes, %s sm_%u: %zu kernels", chosen.size,
			 code->ptx ? "PTX" : "cubin", chosen.sm, code->kernels.count);
	else
		ck_debug("an image that is not used: error %d", (int)err);
	ck_fatbin_choice_free(&chosen);
	if (err)
		ckc_code_put(code);
	else
		*out = code;
	return err;
}

struct ckc_code *ckc_code_none(void)
{
	struct ckc_code *code = calloc(1, sizeof(*code));

	if (!code)
		return NULL;
	code->users = 1;
	code->none = true;
	code->by_name = ck_map_create();
	if (code->by_name)
		return code;
	free(code);
	return NULL;
}

struct ckc_code *ckc_code_get(struct ckc_code *code)
{
	__atomic_add_fetch(&code->users, 1, __ATOMIC_RELAXED);
	return code;
}

void ckc_code_put(struct ckc_code *code)
{
	if (__atomic_sub_fetch(&code->users, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	ck_map_destroy(code->by_name);
	ck_kernels_free(&code->kernels);
	free(code);
}

long ckc_code_find(const struct ckc_code *code, const char *name)
{
	return (long)(uintptr_t)ck_map_find(code->by_name, name, strlen(name)) - 1;
}

CUresult ckc_code_read_file(const char *path, void **image, size_t *size_out)
{
	CUresult err = CUDA_ERROR_FILE_NOT_FOUND;
	FILE *f = fopen(path, "rb");
	char *data = NULL;
	struct stat st;
	size_t size;

	if (!f)
		return err;
	if (fstat(fileno(f), &st) < 0 || !S_ISREG(st.st_mode))
		goto close_file;
	size = (size_t)st.st_size;
	data = calloc(1, size + 64); /* classify reads a few bytes past the end */
	if (!data) {
		err = CUDA_ERROR_OUT_OF_MEMORY;
		goto close_file;
	}
	if (fread(data, 1, size, f) == size) {
		*image = data;
		if (size_out)
			*size_out = size;
		data = NULL;
		err = CUDA_SUCCESS;
	}
	free(data);
close_file:
	fclose(f);
	return err;
}
