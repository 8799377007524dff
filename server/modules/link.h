/*
 * server/modules/link.h - modules whose text has several units; links that end with their context.
 */
#ifndef CK_SERVER_MODULES_LINK_H
#define CK_SERVER_MODULES_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "server/modules/jit.h"

struct ck_handles;

/* Context @ctx has ended, and with it the driver's part of its links: free the rest, the logs. */
void ck_links_drop_context(struct ck_handles *handles, uint64_t ctx);

/* Is @image, NUL-terminated, PTX text of more than one unit? */
bool ck_link_needed(const void *image);
/* Link it: *@cubin is the image, for the caller to free; @build has the logs of a failure. */
CUresult ck_link_units(const void *image, struct ck_build *build, void **cubin);

#endif
