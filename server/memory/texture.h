/*
 * server/memory/texture.h - which texture and surface objects a session has made.
 *
 * They are the driver's numbers, and the driver need not look at a number before it uses it: what
 * is not in this set is not passed to it. Safe from all threads of a session.
 */
#ifndef CK_SERVER_MEMORY_TEXTURE_H
#define CK_SERVER_MEMORY_TEXTURE_H

#include <stdint.h>

struct ck_textures;

int ck_textures_create(struct ck_textures **textures);
void ck_textures_destroy(struct ck_textures *textures);

/* The context has gone, and its objects with it. */
void ck_textures_drop_context(struct ck_textures *textures, uint64_t ctx);

#endif
