/*
 * command/exporter/pem.c - see pem.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/exporter/pem.h"
#include "util/process/fd.h"

int ckx_pem_supported(void)
{
	if (MHD_is_feature_supported(MHD_FEATURE_TLS) == MHD_YES)
		return 0;
	ckx_error("libmicrohttpd was built without TLS here");
	return -EOPNOTSUPP;
}

static int report_error(const char *path, int error)
{
	ckx_error("%s: %s", path, strerror(error));
	return -error;
}

/* @secret: only the owner and a group may read it. */
static int read_file(const char *path, bool secret, char text[CKX_PEM_MAX])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	ssize_t n;
	int ret = 0;

	if (fd < 0)
		return report_error(path, errno);
	n = fstat(fd, &st) < 0 ? -1 : read(fd, text, CKX_PEM_MAX);
	if (n < 0)
		ret = report_error(path, errno);
	else if (n == CKX_PEM_MAX)
		ret = report_error(path, EFBIG);
	else if (secret && st.st_mode & S_IRWXO)
		ckx_error("%s: all users can read the key: chmod o= %s", path, path), ret = -EPERM;
	text[n > 0 && n < CKX_PEM_MAX ? n : 0] = '\0';
	close(fd);
	return ret;
}

int ckx_pem_read(const char *certificate, const char *key, struct ckx_pem *out)
{
	int ret = read_file(certificate, false, out->certificate);

	return ret < 0 ? ret : read_file(key, true, out->key);
}
