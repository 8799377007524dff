/*
 * rpc/image_alias.h - the names of a server's images in the reply to a hello.
 *
 * A name is a hash of the session's id and the image's own hash. A client that has the image learns
 * that it need not send it. The list alone reveals no image and gives no access to one.
 */
#ifndef CK_RPC_IMAGE_ALIAS_H
#define CK_RPC_IMAGE_ALIAS_H

#include <string.h>

#include "util/hash.h"

#define CK_ALIAS_SESSION 16 /* bytes of a session's id */

static inline void ck_image_alias(const void *session, const struct ck_hash *image,
				  struct ck_hash *alias)
{
	unsigned char both[CK_ALIAS_SESSION + CK_HASH_SIZE];

	memcpy(both, session, CK_ALIAS_SESSION);
	memcpy(both + CK_ALIAS_SESSION, image->bytes, CK_HASH_SIZE);
	ck_hash(both, sizeof(both), alias);
}

#endif
