/*
 * server/modules/link.h - modules whose text is several units; links that go with their context.
 */
#ifndef CK_SERVER_MODULES_LINK_H
#define CK_SERVER_MODULES_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "server/modules/jit.h"

struct ck_handles;

/* Context @ctx has gone, and with it what the driver had of its links: free the rest, the logs. */
void ck_links_drop_context(struct ck_handles *handles, uint64_t ctx);

/* Is @image, NUL-terminated, PTX text of more than one unit? */
bool ck_link_needed(const void *image);
/* Link it: *@cubin is the image, to be freed; logs of failures in @build. */
CUresult ck_link_units(const void *image, struct ck_build *build, void **cubin);

#endif
