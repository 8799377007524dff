/*
 * compilers/nvrtc.c - in the place of NVRTC's machine code, the PTX that it has made it from.
 */
#include <stddef.h>

#include "compilers/library.h"

#define NVRTC_SUCCESS 0
#define NVRTC_ERROR_INTERNAL_ERROR 11

typedef int get_size(void *program, size_t *size);
typedef int get_code(void *program, char *code);

#pragma GCC visibility push(default)
get_size nvrtcGetCUBINSize;
get_code nvrtcGetCUBIN;
#pragma GCC visibility pop

static void *function(const char *name)
{
	return ck_compiler_function("libnvrtc.so", name);
}

/* For a virtual architecture there is no machine code: the size stays 0. */
int nvrtcGetCUBINSize(void *program, size_t *size)
{
	get_size *code = function("nvrtcGetCUBINSize"), *ptx = function("nvrtcGetPTXSize");
	int result = code && ptx ? code(program, size) : NVRTC_ERROR_INTERNAL_ERROR;

	return result == NVRTC_SUCCESS && *size > 0 ? ptx(program, size) : result;
}

int nvrtcGetCUBIN(void *program, char *code)
{
	get_code *ptx = function("nvrtcGetPTX");

	return ptx ? ptx(program, code) : NVRTC_ERROR_INTERNAL_ERROR;
}
