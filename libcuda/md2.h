/*
 * libcuda/md2.h - the MD2 hash (RFC 1319) and HMAC (RFC 2104) over it.
 *
 * MD2 is broken as a cryptographic hash; it is here only because an answer that CUDA's runtime
 * asks for is defined by it (libcuda/export_integrity.c).
 */
#ifndef CK_LIBCUDA_MD2_H
#define CK_LIBCUDA_MD2_H

#include <stddef.h>
#include <stdint.h>

#define CK_MD2_SIZE 16

struct ck_md2 {
	uint8_t state[16], checksum[16], block[16];
	size_t used; /* bytes in block */
};

void ck_md2_init(struct ck_md2 *md2);
void ck_md2_add(struct ck_md2 *md2, const void *data, size_t size);
void ck_md2_end(struct ck_md2 *md2, uint8_t digest[CK_MD2_SIZE]);

/* A message authentication code in pieces. The key is of one block; there is no need for others. */
struct ck_hmac {
	struct ck_md2 inner, outer;
};

void ck_hmac_init(struct ck_hmac *hmac, const uint8_t key[CK_MD2_SIZE]);
void ck_hmac_add(struct ck_hmac *hmac, const void *data, size_t size);
void ck_hmac_end(struct ck_hmac *hmac, uint8_t digest[CK_MD2_SIZE]);

#endif
