/*
 * elf/nvinfo.h - the records of .nv.info sections; private to elf/.
 */
#ifndef CK_ELF_NVINFO_H
#define CK_ELF_NVINFO_H

#include <stddef.h>
#include <stdint.h>

#include "elf/kernels.h"

/* Attributes that we read; numbers observed on cubins of CUDA 11 to 13. */
enum ck_nvinfo_attribute {
	CK_NVINFO_MAX_THREADS = 0x05,	   /* u32 x, y, z of .maxntid */
	CK_NVINFO_PARAM_CBANK = 0x0A,	   /* u32 symbol, u16 bank offset, u16 size */
	CK_NVINFO_REQUIRED_THREADS = 0x10, /* u32 x, y, z of .reqntid */
	CK_NVINFO_KPARAM = 0x17,	   /* u32, u16 ordinal, u16 offset, u32 size << 18 | ... */
	CK_NVINFO_CBANK_PARAM_SIZE = 0x19, /* u16: bytes of the parameter block */
	CK_NVINFO_REGCOUNT = 0x2F,	   /* u32 symbol, u32 registers */
	CK_NVINFO_KPARAM_V2 = 0x45,	   /* u32, u16 ordinal, u16 offset, u16 size, u16 */
};

/* A walk over one section. */
struct ck_nvinfo_iter {
	const unsigned char *at;
	size_t left;
};

struct ck_nvinfo_record {
	unsigned attribute;
	uint16_t value;		      /* forms without a payload */
	const unsigned char *payload; /* NULL in forms without */
	size_t size;		      /* of payload */
};

/* 1: the next record in *record; 0: the end; -ENOEXEC: a form that we do not know. */
int ck_nvinfo_next(struct ck_nvinfo_iter *it, struct ck_nvinfo_record *record);

/*
 * Read one kernel's section: parameters and limits go to *kernel, whose name is set. -ENOEXEC:
 * parameters that overlap, are missing or lie outside the block; -ENOMEM.
 */
int ck_nvinfo_kernel(const void *section, size_t size, struct ck_kernel *kernel);

#endif
