/*
 * elf/ptxhead.h - the outermost level of PTX text: version, target, kernels.
 *
 * A light scanner: it skips bodies of functions, except for the shared variables that they declare.
 * Independent of the emulator's parser. Grammar: PTX ISA manual, NVIDIA. The text ends at a NUL or
 * after `size` bytes. It is not trusted; invalid text gives -ENOEXEC.
 *
 * A text may be several translation units, one after the other, each with a head of its own (see
 * ck_fatbin_join). Of definitions that several units have (.weak), the first counts.
 */
#ifndef CK_ELF_PTXHEAD_H
#define CK_ELF_PTXHEAD_H

#include <stdbool.h>
#include <stddef.h>

#include "elf/kernels.h"

struct ck_ptx_head {
	unsigned version_major, version_minor; /* of the language */
	unsigned sm;			       /* 10 * major + minor of .target */
	bool arch_specific, family;	       /* sm_90a; sm_100f */
	unsigned address_size;		       /* 64; 0 where the text does not say */
};

/* Of the first unit. -ENOEXEC: no .version or no .target before the first declaration. */
int ck_ptx_head(const char *text, size_t size, struct ck_ptx_head *out);

/*
 * All .entry functions that have a body, in the order of the text. `shared` is a lower bound:
 * variables that the body itself declares, without module-wide .shared variables and those of
 * functions that it calls. `registers` is 0. Free with ck_kernels_free. -ENOEXEC, -ENOMEM; *out is
 * set only on 0.
 */
int ck_ptx_kernels(const char *text, size_t size, struct ck_kernels *out);

#endif
