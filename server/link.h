/*
 * server/link.h - modules whose text is several units.
 */
#ifndef CK_SERVER_LINK_H
#define CK_SERVER_LINK_H

#include <stdbool.h>

#include "server/jit.h"

/* Is @image, NUL-terminated, PTX text of more than one unit? */
bool ck_link_needed(const void *image);
/* Link it: *@cubin is the image, to be freed; logs of failures in @build. */
CUresult ck_link_units(const void *image, struct ck_build *build, void **cubin);

#endif
