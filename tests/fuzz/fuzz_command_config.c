/*
 * tests/fuzz/fuzz_command_config.c - any bytes as the user's configuration of the command: refused,
 * or such that each server is found by its name and has an address.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/config/config.h"
#include "tests/fuzz/standalone.h"

/* The path of the file, in a folder that goes with the process. */
static char home[64], path[128];

static void remove_home(void)
{
	char folder[96];

	snprintf(folder, sizeof(folder), "%s/cricket", home);
	unlink(path);
	rmdir(folder);
	rmdir(home);
}

static void make_home(void)
{
	strcpy(home, "/tmp/cricket-fuzz-XXXXXX");
	CK_FUZZ_CHECK(mkdtemp(home));
	snprintf(path, sizeof(path), "%s/cricket", home);
	CK_FUZZ_CHECK(mkdir(path, 0700) == 0);
	snprintf(path, sizeof(path), "%s/cricket/config", home);
	setenv("XDG_CONFIG_HOME", home, 1);
	atexit(remove_home);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ckx_config config;
	int fd;

	if (!home[0])
		make_home();
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CK_FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
	if (ckx_config_read(&config) < 0)
		return 0;
	CK_FUZZ_CHECK(config.count <= CKX_SERVERS && memchr(config.chosen, 0, CKX_TEXT));
	for (size_t i = 0; i < config.count; i++) {
		const struct ckx_entry *e = &config.servers[i];

		CK_FUZZ_CHECK(memchr(e->name, 0, CKX_TEXT) && e->name[0] && e->address[0]);
		CK_FUZZ_CHECK(memchr(e->token_file, 0, CKX_TEXT) && e->file);
		CK_FUZZ_CHECK(ckx_config_find(&config, e->name) == e);
	}
	return 0;
}
