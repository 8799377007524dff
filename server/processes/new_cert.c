/*
 * server/processes/new_cert.c - see new_cert.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "rpc/tls.h"
#include "server/processes/new_cert.h"

int cks_new_cert(const char *folder, char *const *names, size_t count)
{
	char host[HOST_NAME_MAX + 1] = "localhost", pin[CK_TLS_PIN], why[CK_TLS_WHY];
	char *const own[] = {host, (char *)"localhost", (char *)"127.0.0.1", (char *)"::1"};
	char key[512];
	bool kept;
	int ret;

	if (gethostname(host, sizeof(host) - 1) < 0)
		return -errno;
	if (count == 0) {
		names = own;
		count = sizeof(own) / sizeof(own[0]);
	}
	snprintf(key, sizeof(key), "%s/" CK_TLS_KEY_FILE, folder);
	kept = access(key, F_OK) == 0;
	ret = ck_tls_new_certificate(folder, names, count, pin, why);
	if (ret < 0) {
		fprintf(stderr, "cricket-rpc-server: --new-cert: %s\n", why);
		return ret;
	}
	printf("%s"
	       "server:  --tls-cert %s/" CK_TLS_CERT_FILE " --tls-key %s/" CK_TLS_KEY_FILE "\n"
	       "clients: CRICKET_TLS_PIN=%s\n",
	       kept ? "key:     the one that is there, so the pin is as before\n" : "", folder,
	       folder, pin);
	return 0;
}
