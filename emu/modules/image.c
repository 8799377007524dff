/*
 * emu/modules/image.c - from the bytes of a module to a parsed one: only PTX runs here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/fatbin.h"
#include "elf/ptxhead.h"
#include "emu/core/emu.h"
#include "emu/modules/function.h"
#include "emu/objects/activity.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("emu");

#define LOG_SIZE 1024
#define MACHINE_CUDA 190 /* e_machine of a cubin */

CUresult ck_emu_jit_read(unsigned int count, const CUjit_option *options, void **values,
			 struct ck_emu_jit *jit)
{
	memset(jit, 0, sizeof(*jit));
	if (count && (!options || !values))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++) {
		switch (options[i]) {
		case CU_JIT_INFO_LOG_BUFFER:
			jit->log[0] = values[i];
			break;
		case CU_JIT_ERROR_LOG_BUFFER:
			jit->log[1] = values[i];
			break;
		case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
			jit->log_written[0] = &values[i];
			break;
		case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
			jit->log_written[1] = &values[i];
			break;
		case CU_JIT_WALL_TIME:
			values[i] = NULL; /* milliseconds as a float: no time to speak of */
			break;
		case CU_JIT_MAX_REGISTERS:
			jit->max_registers = (unsigned int)(uintptr_t)values[i];
			break;
		default: /* all others steer a compiler that is not here */
			break;
		}
	}
	for (int i = 0; i < 2; i++) {
		/* the size is passed in the slot that later returns the number of bytes written */
		if (jit->log_written[i])
			jit->log_room[i] = (unsigned int)(uintptr_t)*jit->log_written[i];
	}
	return CUDA_SUCCESS;
}

/* Put @text in the information (0) or error (1) log. */
static void jit_write(const struct ck_emu_jit *jit, int which, const char *text)
{
	size_t size = strlen(text);

	if (jit->log[which] && jit->log_room[which]) {
		size = ck_min(size, jit->log_room[which] - 1);
		memcpy(jit->log[which], text, size);
		jit->log[which][size] = '\0';
	} else {
		size = 0;
	}
	if (jit->log_written[which])
		*jit->log_written[which] = (void *)(uintptr_t)size;
}

/* Past blanks and comments. */
static const char *text_skip(const char *text)
{
	for (;;) {
		text += strspn(text, " \t\r\n\f\v");
		if (strncmp(text, "//", 2) == 0) {
			text += strcspn(text, "\n");
		} else if (strncmp(text, "/*", 2) == 0) {
			const char *end = strstr(text + 2, "*/");

			if (!end)
				return text + strlen(text);
			text = end + 2;
		} else {
			return text;
		}
	}
}

/* The PTX of a fat binary for our devices. */
static CUresult container_open(const void *image, struct ck_emu_image *out, const char **why)
{
	const struct ck_fatbin_device device = {9, 0};
	struct ck_fatbin_choice choice;
	struct ck_image found;
	int ret;

	*why = "a fat binary that is damaged";
	if (ck_image_classify(image, &found) < 0 || found.kind != CK_IMAGE_CONTAINER)
		return CUDA_ERROR_INVALID_IMAGE;
	/* nvcc -rdc=true leaves the PTX in the parts that it linked */
	ret = found.prelinked ? ck_fatbin_join(found.prelinked, device, &choice)
			      : ck_fatbin_choose(found.data, found.size, device, false, &choice);
	if (ret == -ENOMEM) {
		*why = "out of memory";
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*why = "a fat binary without PTX for compute capability 9.0 or below";
	if (ret < 0)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	/* chosen PTX is always a copy of its own */
	out->text = out->owned = (void *)choice.data;
	return CUDA_SUCCESS;
}

/* The kind of an image; @why names its defect. */
static CUresult image_open(const char *image, struct ck_emu_image *out, const char **why)
{
	static const char wrapper[] = "\xb1\x43\x62\x46", container[] = "\x50\xed\x55\xba";
	uint16_t machine;

	/* strncmp stops at a NUL, so that a short image is not read past its end */
	if (strncmp(image, "\177ELF", 4) == 0) {
		memcpy(&machine, image + 18, sizeof(machine));
		*why = "an ELF image: the emulated GPU runs PTX text only";
		return machine == MACHINE_CUDA ? CUDA_ERROR_NO_BINARY_FOR_GPU
					       : CUDA_ERROR_INVALID_IMAGE;
	}
	if (strncmp(image, wrapper, 4) == 0 || strncmp(image, container, 4) == 0)
		return container_open(image, out, why);
	*why = "neither PTX text nor any other known image";
	out->text = image;
	return strncmp(text_skip(image), ".version", 8) ? CUDA_ERROR_INVALID_IMAGE : CUDA_SUCCESS;
}

/* The text with a word at its end about how many registers its kernels may have. */
static CUresult limit_registers(struct ck_emu_image *image, unsigned int registers)
{
	char *text;

	if (asprintf(&text, "%s\n.pragma \"" CK_PTX_PRAGMA_REGISTERS "\";\n", image->text,
		     registers) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	free(image->owned);
	image->text = image->owned = text;
	return CUDA_SUCCESS;
}

CUresult ck_emu_image_open(const void *image, const struct ck_emu_jit *jit,
			   struct ck_emu_image *out)
{
	const char *why = NULL;
	CUresult result;

	*out = (struct ck_emu_image){0};
	jit_write(jit, 0, "");
	jit_write(jit, 1, "");
	result = image_open(image, out, &why);
	if (result != CUDA_SUCCESS) {
		jit_write(jit, 1, why);
		ck_err("load a module: %s", why);
		return result;
	}
	return jit->max_registers ? limit_registers(out, jit->max_registers) : CUDA_SUCCESS;
}

void ck_emu_image_close(struct ck_emu_image *image)
{
	free(image->owned);
}

/* Targets of PTX 9.0 (PTX ISA, "Target Architectures" and release history). */
static bool is_target(unsigned int sm)
{
	static const unsigned int known[] = {10, 11, 12, 13, 20,  30,  32,  35,	 37,  50,
					     52, 53, 60, 61, 62,  70,  72,  75,	 80,  86,
					     87, 88, 89, 90, 100, 101, 103, 110, 120, 121};

	for (size_t i = 0; i < CK_ARRAY_SIZE(known); i++)
		if (known[i] == sm)
			return true;
	return false;
}

/* Does the driver of this version know the language and the target? PTX 9.x came with CUDA 13.x. */
static CUresult check_head(const char *text, const struct ck_emu_jit *jit)
{
	const unsigned int major = CK_EMU_VERSION / 1000 - 4, minor = CK_EMU_VERSION % 1000 / 10;
	CUresult result = CUDA_SUCCESS;
	struct ck_ptx_head head;
	char why[80];

	if (ck_ptx_head(text, strlen(text), &head) < 0)
		return CUDA_SUCCESS; /* the parser reports the error */
	if (head.version_major > major ||
	    (head.version_major == major && head.version_minor > minor)) {
		snprintf(why, sizeof(why), "PTX of version %u.%u: this driver has %u.%u",
			 head.version_major, head.version_minor, major, minor);
		result = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	} else if (!is_target(head.sm)) {
		snprintf(why, sizeof(why), "PTX for the target sm_%u, which is unknown", head.sm);
		result = CUDA_ERROR_INVALID_PTX;
	}
	if (result != CUDA_SUCCESS) {
		jit_write(jit, 1, why);
		ck_err("load a module: %s", why);
	}
	return result;
}

CUresult ck_emu_image_parse(const char *text, const struct ck_emu_jit *jit,
			    struct ck_ptx_module **ptx)
{
	char log[LOG_SIZE] = "";
	bool recorded = ck_emu_activity_on();
	uint32_t number = recorded ? ck_emu_activity_number() : 0;
	uint64_t start = recorded ? ck_emu_activity_clock() : 0;
	CUresult result = check_head(text, jit);
	int ret;

	if (result != CUDA_SUCCESS)
		return result;
	ret = ck_ptx_parse(text, strlen(text), log, sizeof(log), ptx);
	if (recorded)
		ck_emu_activity_add_compiler(number, start);
	jit_write(jit, 1, log);
	if (ret == 0)
		return CUDA_SUCCESS;
	/* always one line */
	for (char *c = log; *c; c++) {
		if (*c == '\n')
			*c = ' ';
	}
	ck_err("load a module: %s", *log ? log : strerror(-ret));
	/* the text may be right and only more than the interpreter knows: that is our lack */
	return ret == -ENOMEM	    ? CUDA_ERROR_OUT_OF_MEMORY
	       : ret == -EOPNOTSUPP ? CUDA_ERROR_NOT_SUPPORTED
				    : CUDA_ERROR_INVALID_PTX;
}

CUresult ck_emu_image_read(const char *path, char **image, size_t *bytes)
{
	CUresult result = CUDA_ERROR_FILE_NOT_FOUND;
	size_t size = 0, room = 0, got;
	FILE *file;

	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	*image = NULL;
	file = fopen(path, "re");
	if (!file)
		return CUDA_ERROR_FILE_NOT_FOUND;
	do {
		char *bigger = realloc(*image, room = 2 * room + 65536);

		if (!bigger) {
			result = CUDA_ERROR_OUT_OF_MEMORY;
			goto free_image;
		}
		*image = bigger;
		/* an ELF header is looked into beyond a first NUL: leave zeros there */
		got = fread(*image + size, 1, room - size - 64, file);
		size += got;
		memset(*image + size, 0, 64);
	} while (got && !feof(file));
	if (ferror(file))
		goto free_image;
	fclose(file);
	if (bytes)
		*bytes = size;
	return CUDA_SUCCESS;
free_image:
	fclose(file);
	free(*image);
	return result;
}
