/*
 * rpc/transport/tls_cert.c - makes a key and a certificate that it signs itself, for servers
 * without an authority.
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

static bool fill_certificate(X509 *x, EVP_PKEY *key, const char *first, const char *names)
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

/* Where a certificate and its key are. */
struct place {
	char key[512], cert[512], fresh[520]; /* fresh becomes cert */
};

static int report_file_error(const char *path, char why[CK_TLS_WHY])
{
	int ret = -errno;

	snprintf(why, CK_TLS_WHY, "%.200s: %s", path, strerror(-ret));
	return ret;
}

static int find_place(const char *folder, struct place *p, char why[CK_TLS_WHY])
{
	int n = snprintf(p->cert, sizeof(p->cert), "%s/%s", folder, CK_TLS_CERT_FILE);

	if (n < 0 || n >= (int)sizeof(p->cert)) {
		errno = ENAMETOOLONG;
		return report_file_error(folder, why);
	}
	snprintf(p->key, sizeof(p->key), "%s/%s", folder, CK_TLS_KEY_FILE);
	snprintf(p->fresh, sizeof(p->fresh), "%s.new", p->cert);
	return mkdir(folder, 0700) < 0 && errno != EEXIST ? report_file_error(folder, why) : 0;
}

/* A passphrase would be asked for on the terminal. */
static int no_passphrase(char *out, int size, int writing, void *closure)
{
	(void)out;
	(void)size;
	(void)writing;
	(void)closure;
	return 0;
}

/* The key that is there; 0 with *@key NULL: there is none. */
static int read_key(const struct place *p, EVP_PKEY **key, char why[CK_TLS_WHY])
{
	FILE *f;
	int ret;

	*key = NULL;
	if (access(p->key, F_OK) < 0 && errno == ENOENT)
		return 0;
	ret = ck_tls_check_key(p->key, why);
	if (ret < 0)
		return ret;
	f = fopen(p->key, "re");
	if (!f)
		return report_file_error(p->key, why);
	*key = PEM_read_PrivateKey(f, NULL, no_passphrase, NULL);
	fclose(f);
	if (*key)
		return 0;
	ck_tls_reason(p->key, why);
	return -EINVAL;
}

/* May the certificate that is there be replaced by one for @key, NULL: a new one? */
static int check_replaced(const struct place *p, EVP_PKEY *key, char why[CK_TLS_WHY])
{
	FILE *f = fopen(p->cert, "re");
	X509 *x;
	bool own;

	if (!f)
		return errno == ENOENT ? 0 : report_file_error(p->cert, why);
	x = PEM_read_X509(f, NULL, no_passphrase, NULL);
	fclose(f);
	own = x && key && X509_check_private_key(x, key) == 1 &&
	      X509_NAME_cmp(X509_get_subject_name(x), X509_get_issuer_name(x)) == 0;
	X509_free(x);
	if (own)
		return 0;
	errno = EEXIST;
	report_file_error(p->cert, why);
	if (key)
		snprintf(why, CK_TLS_WHY,
			 "%.200s: it is not a certificate that its own key has signed; remove it "
			 "first",
			 p->cert);
	return -EEXIST;
}

/* A new file, which must not exist. */
static FILE *create_file(const char *path, mode_t mode, char why[CK_TLS_WHY])
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;

	if (!f)
		report_file_error(path, why);
	if (!f && fd >= 0)
		close(fd);
	return f;
}

/* End writing file @path: whole, or not there. */
static int finish_file(FILE *f, const char *path, bool ok, char why[CK_TLS_WHY])
{
	errno = 0;
	ok = fclose(f) == 0 && ok;
	if (ok)
		return 0;
	snprintf(why, CK_TLS_WHY, "%.200s: %s", path,
		 errno ? strerror(errno) : "it cannot be written");
	unlink(path);
	return -EIO;
}

static int write_key(const struct place *p, EVP_PKEY *key, char why[CK_TLS_WHY])
{
	FILE *f = create_file(p->key, 0600, why);

	return f ? finish_file(f, p->key,
			       PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1, why)
		 : -EIO;
}

static int write_certificate(const struct place *p, X509 *x, char why[CK_TLS_WHY])
{
	FILE *f;
	int ret;

	unlink(p->fresh); /* of a run that was ended */
	f = create_file(p->fresh, 0644, why);
	ret = f ? finish_file(f, p->fresh, PEM_write_X509(f, x) == 1, why) : -EIO;
	if (ret == 0 && rename(p->fresh, p->cert) < 0)
		ret = report_file_error(p->cert, why);
	return ret;
}

bool ck_tls_is_host(const char *name)
{
	char list[NAMES_MAX], *names[] = {(char *)(uintptr_t)name};

	return list_names(names, 1, list) == 0;
}

int ck_tls_new_certificate(const char *folder, char *const *names, size_t count,
			   char pin[CK_TLS_PIN], char why[CK_TLS_WHY])
{
	char list[NAMES_MAX];
	EVP_PKEY *key = NULL, *known = NULL;
	struct place place;
	X509 *x = NULL;
	int ret = list_names(names, count, list);

	if (ret < 0) {
		snprintf(why, CK_TLS_WHY, "not a list of host names and addresses");
		return ret;
	}
	ret = find_place(folder, &place, why);
	if (ret == 0)
		ret = read_key(&place, &known, why);
	if (ret == 0)
		ret = check_replaced(&place, known, why);
	if (ret < 0)
		goto out;
	snprintf(why, CK_TLS_WHY, "the key or the certificate cannot be made");
	key = known ? known : EVP_EC_gen(CURVE);
	x = X509_new();
	ret = key && x && fill_certificate(x, key, names[0], list) && ck_tls_pin_of(x, pin)
		      ? 0
		      : -EINVAL;
	if (ret == 0 && !known)
		ret = write_key(&place, key, why);
	if (ret == 0)
		ret = write_certificate(&place, x, why);
out:
	ERR_clear_error();
	X509_free(x);
	EVP_PKEY_free(known ? known : key);
	return ret;
}
