/*
 * rpc/transport/tls_pin.c - pins: the hashes of public keys; see rpc/tls.h.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "rpc/transport/tls.h"

#define PIN_KIND "sha256:"
#define PIN_SIZE (CK_TLS_PIN - 1)
#define BETWEEN ", \t"

/* Is the text of @size bytes a pin? */
static bool is_pin(const char *text, size_t size)
{
	size_t kind = strlen(PIN_KIND);

	return size == PIN_SIZE && strncmp(text, PIN_KIND, kind) == 0 &&
	       strspn(text + kind, "0123456789abcdefABCDEF") >= PIN_SIZE - kind;
}

/* The next entry of the list at *@text, its size in *@size; NULL: there is none. */
static const char *next_pin(const char **text, size_t *size)
{
	const char *pin = *text + strspn(*text, BETWEEN);

	*size = strcspn(pin, BETWEEN);
	*text = pin + *size;
	return *size > 0 ? pin : NULL;
}

bool ck_tls_is_pin(const char *text)
{
	return is_pin(text, strlen(text));
}

bool ck_tls_are_pins(const char *text)
{
	const char *pin;
	size_t size, count = 0;

	for (; (pin = next_pin(&text, &size)) != NULL; count++) {
		if (!is_pin(pin, size))
			return false;
	}
	return count > 0;
}

bool ck_tls_has_pin(const char *pins, const char *wanted)
{
	const char *pin;
	size_t size;

	while ((pin = next_pin(&pins, &size)) != NULL) {
		if (size == strlen(wanted) && strncasecmp(pin, wanted, size) == 0)
			return true;
	}
	return false;
}

bool ck_tls_pin_of(X509 *certificate, char pin[CK_TLS_PIN])
{
	unsigned char *key = NULL, digest[EVP_MAX_MD_SIZE];
	int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &key);
	unsigned int n = 0;
	bool ok = size > 0 && EVP_Digest(key, (size_t)size, digest, &n, EVP_sha256(), NULL) == 1;

	OPENSSL_free(key);
	snprintf(pin, CK_TLS_PIN, PIN_KIND);
	for (unsigned int i = 0; ok && i < n && i < 32; i++)
		snprintf(pin + strlen(PIN_KIND) + 2 * i, 3, "%02x", digest[i]);
	return ok && n == 32;
}
