/*
 * command/config/install_paths.c - see install_paths.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/config/install_paths.h"
#include "util/util.h"
#include "util/process/home.h"

#define CLIENT "cricket-client.so"
#define SERVER "cricket-rpc-server"
#define EMULATED "libcuda-emu.so"

static const char *const installed[] = {"/usr/local/lib/cricket", "/usr/lib/cricket",
					CKX_CONTAINER_LIBRARY};

/* The folder of this program, without symbolic links. */
static int own_folder(char out[CKX_PATH])
{
	ssize_t n = readlink("/proc/self/exe", out, CKX_PATH - 1);

	if (n < 0)
		return -errno;
	out[n] = '\0';
	*strrchr(out, '/') = '\0';
	return 0;
}

/* Is the file @name in @folder/@below? Then that is the result. */
static bool has_file(const char *name, const char *folder, const char *below, char out[CKX_PATH])
{
	char path[CKX_PATH + 32];
	int n = snprintf(out, CKX_PATH, "%s%s", folder, below);

	if (n < 0 || n >= CKX_PATH)
		return false;
	snprintf(path, sizeof(path), "%s/%s", out, name);
	return access(path, R_OK) == 0;
}

/* The first folder with the file @name. */
static bool find_folder(const char *name, char out[CKX_PATH])
{
	char own[CKX_PATH];

	if (own_folder(own) == 0 &&
	    (has_file(name, own, "", out) || has_file(name, own, "/../lib/cricket", out)))
		return true;
	for (size_t i = 0; i < CK_ARRAY_SIZE(installed); i++) {
		if (has_file(name, installed[i], "", out))
			return true;
	}
	return false;
}

int ckx_install_path_library(char out[CKX_PATH])
{
	if (find_folder(CLIENT, out))
		return 0;
	ckx_error("there is no " CLIENT " beside this program or in %s: install the client",
		  installed[0]);
	return -ENOENT;
}

bool ckx_install_path_loads(const char *folder)
{
	return !strpbrk(folder, ": ");
}

int ckx_install_path_server(char out[CKX_PATH])
{
	char emulated[CKX_PATH + 32];

	if (!find_folder(SERVER, out)) {
		ckx_error("there is no " SERVER " beside this program or in %s: install the server "
			  "of Cricket " CK_RELEASE,
			  installed[0]);
		return -ENOENT;
	}
	snprintf(emulated, sizeof(emulated), "%s/" EMULATED, out);
	if (access(emulated, R_OK) < 0) {
		ckx_error("there is no " EMULATED " in %s: install all files of the server", out);
		return -ENOENT;
	}
	if (strlen(out) + sizeof("/" SERVER) > CKX_PATH)
		return -ENAMETOOLONG;
	strcat(out, "/" SERVER);
	return 0;
}

int ckx_install_path_own(const char *name, char out[CKX_PATH])
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = ck_home();
	int n;

	if (config && *config == '/') {
		n = snprintf(out, CKX_PATH, "%s/cricket/%s", config, name);
		return n < CKX_PATH ? 0 : -ENAMETOOLONG;
	}
	if (!home)
		return -ENOENT;
	n = snprintf(out, CKX_PATH, "%s/.config/cricket/%s", home, name);
	return n < CKX_PATH ? 0 : -ENAMETOOLONG;
}

int ckx_install_path_make(const char *path, mode_t mode)
{
	char part[CKX_PATH];
	char *end = part;

	if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part))
		return -ENAMETOOLONG;
	do {
		end = strchr(end + 1, '/');
		if (end)
			*end = '\0';
		if (mkdir(part, mode) < 0 && errno != EEXIST)
			return -errno;
		if (end)
			*end = '/';
	} while (end);
	return 0;
}

int ckx_install_path_own_folder(const char *name, char out[CKX_PATH])
{
	char *end;
	int ret = ckx_install_path_own(name, out);

	if (ret < 0)
		return ckx_error("%s", ret == -ENOENT ? CK_HOME_NONE : "HOME is too long"), ret;
	end = strrchr(out, '/');
	*end = '\0';
	ret = ckx_install_path_make(out, 0700);
	if (ret < 0)
		ckx_error("making %s: %s", out, strerror(-ret));
	*end = '/';
	return ret;
}
