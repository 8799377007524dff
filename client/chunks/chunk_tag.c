/*
 * client/chunks/chunk_tag.c - see client/chunks/chunk_tag.h.
 */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#include "client/chunks/chunk_tag.h"
#include "rpc/compress.h"
#include "util/util.h"

#define KEY 16
#define NONCE 12
#define PIECE ((size_t)32 << 10) /* remains in the processor's cache */

struct ckc_chunk_tags {
	OSSL_LIB_CTX *library; /* apart from the program's, and without a configuration */
	EVP_CIPHER *cipher;
	unsigned char key[KEY];
};

/* Has the processor an instruction for the products? */
static bool is_fast(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes");
#elif defined(__aarch64__)
	return getauxval(AT_HWCAP) & 1ul << 4; /* HWCAP_PMULL */
#else
	return false;
#endif
}

struct ckc_chunk_tags *ckc_chunk_tags_create(const void *key)
{
	const uint64_t quiet = OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_NO_LOAD_CONFIG;
	struct ckc_chunk_tags *t = is_fast() ? calloc(1, sizeof(*t)) : NULL;

	if (!t)
		return NULL;
	if (OPENSSL_init_crypto(quiet, NULL) == 1)
		t->library = OSSL_LIB_CTX_new();
	if (t->library)
		t->cipher = EVP_CIPHER_fetch(t->library, "AES-128-GCM", NULL);
	if (!t->cipher) {
		ckc_chunk_tags_destroy(t);
		return NULL;
	}
	memcpy(t->key, key, sizeof(t->key));
	return t;
}

void ckc_chunk_tags_destroy(struct ckc_chunk_tags *t)
{
	if (!t)
		return;
	EVP_CIPHER_free(t->cipher);
	OSSL_LIB_CTX_free(t->library);
	OPENSSL_cleanse(t->key, sizeof(t->key));
	free(t);
}

/* NULL: no memory. */
static EVP_CIPHER_CTX *begin_tag(const struct ckc_chunk_tags *t)
{
	static const unsigned char nonce[NONCE]; /* zeros: there is no text to protect */
	EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();

	if (c && EVP_EncryptInit_ex2(c, t->cipher, t->key, nonce, NULL) == 1)
		return c;
	EVP_CIPHER_CTX_free(c);
	return NULL;
}

static bool add_bytes(EVP_CIPHER_CTX *c, const void *bytes, size_t size)
{
	int length;

	return EVP_EncryptUpdate(c, NULL, &length, bytes, (int)size) == 1;
}

static bool end_tag(EVP_CIPHER_CTX *c, bool complete, struct ckc_chunk_tag *tag)
{
	unsigned char text[KEY];
	int length;
	bool found = complete && EVP_EncryptFinal_ex(c, text, &length) == 1 &&
		     EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, sizeof(*tag), tag) == 1;

	EVP_CIPHER_CTX_free(c);
	return found;
}

bool ckc_chunk_tag(const struct ckc_chunk_tags *t, const void *bytes, size_t size,
		   struct ckc_chunk_tag *tag)
{
	EVP_CIPHER_CTX *c = size <= CK_CHUNK ? begin_tag(t) : NULL;

	return c && end_tag(c, add_bytes(c, bytes, size), tag);
}

bool ckc_chunk_tag_hash(const struct ckc_chunk_tags *t, const void *bytes, size_t size,
			struct ckc_chunk_tag *tag, struct ck_hash *hash)
{
	EVP_CIPHER_CTX *c = begin_tag(t);
	struct ck_hashing *hashing = ck_hash_begin();
	char *piece = malloc(PIECE);
	bool adds = c && hashing && piece;

	for (size_t at = 0, n; adds && at < size; at += n) {
		n = ck_min(size - at, PIECE);
		memcpy(piece, (const char *)bytes + at, n);
		ck_hash_add(hashing, piece, n);
		adds = add_bytes(c, piece, n);
	}
	free(piece);
	if (hashing)
		ck_hash_end(hashing, hash);
	return c && end_tag(c, adds, tag);
}
