/*
 * server/memory/texture.h - the texture and surface objects that a session has made.
 *
 * They are numbers of the driver, which may not check a number before use. So only numbers in this
 * set are passed to it. Safe from all threads of a session.
 */
#ifndef CK_SERVER_MEMORY_TEXTURE_H
#define CK_SERVER_MEMORY_TEXTURE_H

#include <stdint.h>

struct cks_textures;

int cks_textures_create(struct cks_textures **textures);
void cks_textures_destroy(struct cks_textures *textures);

/* The context has ended, with its objects. */
void cks_textures_drop_context(struct cks_textures *textures, uint64_t ctx);

#endif
