/*
 * server/modules/link.h - modules whose text has several units; links that end with their context.
 */
#ifndef CK_SERVER_MODULES_LINK_H
#define CK_SERVER_MODULES_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/modules/jit.h"

struct cks_handles;

/* Context @ctx has ended, and with it the driver's part of its links: free the rest, the logs. */
void cks_links_drop_context(struct cks_handles *handles, uint64_t ctx);

/* Is @image, NUL-terminated, PTX text of more than one unit? */
bool cks_link_needed(const void *image);
/* Link it: *@cubin is the image, for the caller to free; @build has the logs of a failure. */
CUresult cks_link_units(const void *image, struct cks_build *build, void **cubin);

/* --- a second look at machine code that a client sent, by libelf (verify.c) */

/*
 * Read the ELF file of @size bytes at @image, which is not trusted and stays as it is: its
 * sections, segments, and the names of sections and symbols must lie inside of it. NVIDIA's driver
 * gets no length, and follows the offsets in the file.
 *
 * NULL, or a constant text with the fault.
 */
const char *cks_elf_fault(const void *image, size_t size);

#endif
