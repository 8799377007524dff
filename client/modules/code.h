/*
 * client/modules/code.h - the code of a module: which image the device uses, its kernels, its upload.
 */
#ifndef CK_CLIENT_MODULES_CODE_H
#define CK_CLIENT_MODULES_CODE_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/types.h"
#include "elf/kernels.h"

struct ck_code {
	unsigned char hash[32];		/* BLAKE2b of the image that was sent */
	bool ptx;			/* the server's driver must compile it */
	bool none;			/* nothing in it is for the device: no kernels, not sent */
	struct ck_kernels kernels;
	struct ck_map *by_name;		/* kernel name -> index + 1 */
	unsigned int users;
};

/*
 * Choose the image for @device out of what the application passed (fat binary, wrapper, cubin,
 * PTX), read its kernels and send it unless the server holds it. One user; INVALID_IMAGE,
 * NO_BINARY_FOR_GPU, INVALID_PTX, OUT_OF_MEMORY.
 */
CUresult ck_code_load(const void *image, CUdevice device, struct ck_code **code);
/* The code of a library that has none for the device; NULL: out of memory. */
struct ck_code *ck_code_none(void);
/* Somebody wants what is not in it: NO_BINARY_FOR_GPU, and said once where PTX would have done. */
CUresult ck_code_missing(void);
struct ck_code *ck_code_get(struct ck_code *code);
void ck_code_put(struct ck_code *code);

/* Index of the kernel called @name, or -1. */
long ck_code_find(const struct ck_code *code, const char *name);

/* Whole file @path, NUL-terminated, for cuModuleLoad; free(3) it. FILE_NOT_FOUND: there is none
 * that can be read; OUT_OF_MEMORY. @size may be NULL. */
CUresult ck_code_read_file(const char *path, void **image, size_t *size);

#endif
