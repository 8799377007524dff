/*
 * client/modules/code.h - the code of a module: choosing the device's image, its kernels, its
 * upload.
 */
#ifndef CK_CLIENT_MODULES_CODE_H
#define CK_CLIENT_MODULES_CODE_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/types.h"
#include "elf/kernels.h"

struct ckc_code {
	unsigned char hash[32]; /* BLAKE2b of the image that was sent */
	bool ptx;		/* the server's driver must compile it */
	bool none;		/* contains nothing for the device: no kernels, not sent */
	struct ck_kernels kernels;
	struct ck_map *by_name; /* kernel name -> index + 1 */
	unsigned int users;
};

/*
 * Choose the image for @device from the application's data (fat binary, wrapper, cubin, PTX), read
 * its kernels, and send it unless the server holds it. The caller gets one reference;
 * INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX, OUT_OF_MEMORY.
 */
CUresult ckc_code_load(const void *image, CUdevice device, struct ckc_code **code);
/* Make the code of a library without code for the device; NULL: out of memory. */
struct ckc_code *ckc_code_none(void);
/* The code for the device is missing: returns NO_BINARY_FOR_GPU. Logs once if PTX would have
 * helped. */
CUresult ckc_code_missing(void);
struct ckc_code *ckc_code_get(struct ckc_code *code);
void ckc_code_put(struct ckc_code *code);

/* Index of the kernel named @name, or -1. */
long ckc_code_find(const struct ckc_code *code, const char *name);

/* Read the whole file @path, NUL-terminated, for cuModuleLoad; the caller frees it with free(3).
 * FILE_NOT_FOUND: it does not exist or cannot be read; OUT_OF_MEMORY. @size may be NULL. */
CUresult ckc_code_read_file(const char *path, void **image, size_t *size);

#endif
