/*
 * rpc/transport/tls_cert.c - makes a key and a certificate that it signs itself, for servers without an authority.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "rpc/transport/tls.h"
#include "util/util.h"

#define CURVE "P-256"
#define YEARS 10
#define NAMES_MAX 2048

/* "DNS:a,IP:10.0.0.1". -EINVAL: a name with other characters than names have. */
static int list_names(char *const *names, size_t count, char list[NAMES_MAX])
{
	size_t used = 0;

	for (size_t i = 0; i < count; i++) {
		unsigned char address[16];
		bool numeric = inet_pton(AF_INET, names[i], address) == 1 ||
			       inet_pton(AF_INET6, names[i], address) == 1;
		int n;

		if (!numeric &&
		    (!*names[i] || names[i][strspn(names[i], "abcdefghijklmnopqrstuvwxyz"
							     "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
							     "0123456789.-_*")]))
			return -EINVAL;
		n = snprintf(list + used, NAMES_MAX - used, "%s%s:%s", i ? "," : "",
			     numeric ? "IP" : "DNS", names[i]);
		if (n < 0 || (size_t)n >= NAMES_MAX - used)
			return -EINVAL;
		used += (size_t)n;
	}
	return used > 0 ? 0 : -EINVAL;
}

static bool add_extension(X509 *x, int nid, const char *value)
{
	X509V3_CTX context;
	X509_EXTENSION *extension;
	bool ok;

	X509V3_set_ctx(&context, x, x, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	ok = extension && X509_add_ext(x, extension, -1) == 1;
	X509_EXTENSION_free(extension);
	return ok;
}

static bool set_serial(X509 *x)
{
	unsigned char bytes[16];
	BIGNUM *number;
	bool ok;

	if (RAND_bytes(bytes, sizeof(bytes)) != 1)
		return false;
	bytes[0] &= 0x7f;
	number = BN_bin2bn(bytes, sizeof(bytes), NULL);
	ok = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x));
	BN_free(number);
	return ok;
}

static bool fill(X509 *x, EVP_PKEY *key, const char *first, const char *names)
{
	X509_NAME *subject = X509_get_subject_name(x);

	return X509_set_version(x, 2) == 1 && set_serial(x) &&
	       X509_gmtime_adj(X509_getm_notBefore(x), -3600) && /* clocks differ */
	       X509_time_adj_ex(X509_getm_notAfter(x), YEARS * 365, 0, NULL) &&
	       X509_set_pubkey(x, key) == 1 &&
	       X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)first,
					  -1, -1, 0) == 1 &&
	       X509_set_issuer_name(x, subject) == 1 &&
	       add_extension(x, NID_subject_alt_name, names) &&
	       add_extension(x, NID_basic_constraints, "critical,CA:FALSE") &&
	       add_extension(x, NID_ext_key_usage, "serverAuth") &&
	       X509_sign(x, key, EVP_sha256()) > 0;
}

/* A new file in @folder, which must not exist. */
static FILE *create(const char *folder, const char *name, mode_t mode, char why[CK_TLS_WHY])
{
	char path[512];
	int fd = -1;
	FILE *f;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path))
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	else
		errno = ENAMETOOLONG;
	f = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (!f)
		snprintf(why, CK_TLS_WHY, "%.200s: %s", path, strerror(errno));
	if (!f && fd >= 0)
		close(fd);
	return f;
}

static int write_files(const char *folder, X509 *x, EVP_PKEY *key, char why[CK_TLS_WHY])
{
	FILE *out = create(folder, CK_TLS_KEY_FILE, 0600, why);
	bool ok;

	if (!out)
		return -EIO;
	ok = PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1;
	ok = fclose(out) == 0 && ok;
	out = ok ? create(folder, CK_TLS_CERT_FILE, 0644, why) : NULL;
	if (!out)
		return -EIO;
	ok = PEM_write_X509(out, x) == 1;
	ok = fclose(out) == 0 && ok;
	return ok ? 0 : -EIO;
}

int ck_tls_new_certificate(const char *folder, char *const *names, size_t count,
			   char pin[CK_TLS_PIN], char why[CK_TLS_WHY])
{
	char list[NAMES_MAX];
	EVP_PKEY *key;
	X509 *x;
	int ret = list_names(names, count, list);

	if (ret < 0) {
		snprintf(why, CK_TLS_WHY, "not a list of host names and addresses");
		return ret;
	}
	if (mkdir(folder, 0700) < 0 && errno != EEXIST) {
		ret = -errno;
		snprintf(why, CK_TLS_WHY, "%.200s: %s", folder, strerror(-ret));
		return ret;
	}
	snprintf(why, CK_TLS_WHY, "the key or the certificate cannot be made");
	key = EVP_EC_gen(CURVE);
	x = X509_new();
	ret = key && x && fill(x, key, names[0], list) && ck_tls_pin_of(x, pin) ? 0 : -EINVAL;
	if (ret == 0)
		ret = write_files(folder, x, key, why);
	ERR_clear_error();
	X509_free(x);
	EVP_PKEY_free(key);
	return ret;
}
