/*
 * server/options/new_cert.c - see new_cert.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rpc/tls.h"
#include "server/options/setup.h"
#include "util/address/server_files.h"

/* The packaged service reads its usual files as another user than root, who makes them. */
static int share_with_service(const char *folder)
{
	struct ck_server_files files;
	char path[PATH_MAX];
	int ret = ck_server_files_find(&files);

	if (ret < 0 || !files.service || strcmp(folder, files.tls) != 0)
		return 0;
	if (chown(folder, (uid_t)-1, files.group) < 0 || chmod(folder, 0750) < 0)
		return -errno;
	snprintf(path, sizeof(path), "%s/" CK_TLS_KEY_FILE, folder);
	ret = ck_server_files_share(&files, path);
	snprintf(path, sizeof(path), "%s/" CK_TLS_CERT_FILE, folder);
	return ret < 0 ? ret : ck_server_files_share(&files, path);
}

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
	ret = share_with_service(folder);
	if (ret < 0) {
		fprintf(stderr, "cricket-rpc-server: --new-cert: the service cannot read %s: %s\n",
			folder, strerror(-ret));
		return ret;
	}
	printf("%s"
	       "server:  --tls-cert %s/" CK_TLS_CERT_FILE " --tls-key %s/" CK_TLS_KEY_FILE "\n"
	       "clients: CRICKET_TLS_PIN=%s\n",
	       kept ? "key:     the one that is there, so the pin is as before\n" : "", folder,
	       folder, pin);
	return 0;
}
