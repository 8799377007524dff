/*
 * elf/kernels.h - a kernel's facts for a launch, as read from a cubin or from PTX text.
 */
#ifndef CK_ELF_KERNELS_H
#define CK_ELF_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most bytes of parameters of one kernel (CUDA 12.1 and later). */
#define CK_KERNEL_PARAM_MAX 32764

/* The type of a parameter, as far as an image has it. */
enum ck_param_kind {
	CK_PARAM_UNKNOWN, /* a cubin, or .b32 and the like in PTX */
	CK_PARAM_INTEGER, /* of either sign, or a pointer of old PTX */
	CK_PARAM_POINTER,
	CK_PARAM_FLOAT,
	CK_PARAM_BYTES, /* a structure or an array */
};

struct ck_kernel_param {
	uint32_t offset, size; /* bytes, in the parameter block */
	enum ck_param_kind kind;
};

struct ck_kernel {
	char *name;
	uint32_t param_count;
	struct ck_kernel_param *params; /* in order of the parameters; NULL when there are none */
	uint32_t param_bytes;		/* whole block, with gaps, without padding at the end */
	uint32_t max_threads;		/* a block may have no more; 0: no limit of its own */
	uint32_t block[3];		/* the only block size allowed; 0 0 0: any */
	uint32_t shared;		/* static shared memory, bytes; from PTX: at least */
	uint32_t registers;		/* a thread; 0 where not known (PTX) */
};

/* The caller owns it and frees it. */
struct ck_kernels {
	size_t count;
	struct ck_kernel *items;
	unsigned int print; /* the printing functions that one of them may call: CK_PRINTS_... */
	uint64_t variables; /* bytes of device memory that the image's variables take, at least */
};

/* The functions of the driver by which kernels print: printf, and an assertion that has failed,
 * which also ends the context. */
#define CK_PRINTS_TEXT 1u
#define CK_PRINTS_FAILURE 2u

/* Which of them is @name? 0: none. */
unsigned int ck_kernels_prints_by(const char *name, size_t size);

/* Free all of it and leave an empty list. */
void ck_kernels_free(struct ck_kernels *kernels);

/*
 * For the parsers: append one, all zero except for a copy of the name. Returns it, valid until the
 * next call, or NULL when out of memory.
 */
struct ck_kernel *ck_kernels_add(struct ck_kernels *kernels, const char *name, size_t size);

#endif
