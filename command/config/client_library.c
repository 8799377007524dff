/*
 * command/config/client_library.c - see client_library.h.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command/config/client_library.h"
#include "command/config/command.h"
#include "command/config/install_paths.h"

static void set_environment(const struct ckx_server *server)
{
	if (server->address[0])
		setenv("REMOTE_GPU_ADDRESS", server->address, 1);
	ckx_tls_apply(&server->tls);
	if (server->token[0])
		setenv("CRICKET_TOKEN", server->token, 1);
}

int ckx_client_library_load(const struct ckx_server *server, const char *const names[],
			    size_t count, void *functions)
{
	char path[CKX_PATH + 32];
	void *client, *function;
	int ret = ckx_install_path_library(path);

	if (ret < 0)
		return ret;
	set_environment(server);
	strcat(path, "/cricket-client.so");
	client = dlopen(path, RTLD_NOW);
	if (!client) {
		ckx_error("%s", dlerror());
		return -ENOENT;
	}
	for (size_t i = 0; i < count; i++) {
		function = dlsym(client, names[i]);
		if (!function) {
			ckx_error("%s is of an older release: it has no %s", path, names[i]);
			return -ENOENT;
		}
		memcpy((char *)functions + i * sizeof(function), &function, sizeof(function));
	}
	return 0;
}
