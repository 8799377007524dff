/*
 * server/modules/verify.h - a second look at machine code that a client sent, by libelf.
 */
#ifndef CKS_MODULES_VERIFY_H
#define CKS_MODULES_VERIFY_H

#include <stddef.h>

/*
 * Read the ELF file of @size bytes at @image, which is not trusted and stays as it is: its
 * sections, segments, and the names of sections and symbols must lie inside of it. NVIDIA's driver
 * gets no length, and follows the offsets in the file.
 *
 * NULL, or a constant text with the fault.
 */
const char *cks_elf_fault(const void *image, size_t size);

#endif
