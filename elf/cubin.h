/*
 * elf/cubin.h - kernels of a cubin, the ELF file with machine code of one GPU.
 *
 * Parameter layouts come from the .nv.info sections. Knowing them here saves asking the driver,
 * which takes 37 us a kernel and loads it. Input is not trusted. A file that says something
 * unexpected gives an error rather than a guess: the caller then asks the driver.
 */
#ifndef CK_ELF_CUBIN_H
#define CK_ELF_CUBIN_H

#include <stddef.h>

#include "elf/kernels.h"

/*
 * Target of a cubin as 10 * major + minor. -ENOEXEC: not a cubin, or of a form unknown to us
 * (known: CUDA 11 and 12; CUDA 13).
 */
int ck_cubin_sm(const void *image, size_t size, unsigned *sm);

/*
 * All kernels, in the order of the symbol table; device functions are left out. Free with
 * ck_kernels_free. -ENOEXEC: damaged or unknown form; -ENOMEM; *out is set only on 0.
 */
int ck_cubin_kernels(const void *image, size_t size, struct ck_kernels *out);

#endif
