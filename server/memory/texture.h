/*
 * server/memory/texture.h - the texture and surface objects that a session has made.
 *
 * They are numbers of the driver, which may not check a number before use. So only numbers in this
 * set are passed to it. Safe from all threads of a session.
 */
#ifndef CK_SERVER_MEMORY_TEXTURE_H
#define CK_SERVER_MEMORY_TEXTURE_H

#include <stdint.h>

struct ck_textures;

int ck_textures_create(struct ck_textures **textures);
void ck_textures_destroy(struct ck_textures *textures);

/* The context has ended, with its objects. */
void ck_textures_drop_context(struct ck_textures *textures, uint64_t ctx);

#endif
