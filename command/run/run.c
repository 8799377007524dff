/*
 * command/run/run.c - `cricket run`: the program takes the place of this process, so its signals
 * and its exit status are its own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/config/install_paths.h"
#include "command/run/run.h"
#include "command/run/settings.h"

/* The dynamic linker ignores the client in such a program. */
static void warn_if_privileged(const char *program)
{
	struct stat st;

	if (strchr(program, '/') && stat(program, &st) == 0 &&
	    ((st.st_mode & S_ISUID && st.st_uid != getuid()) ||
	     (st.st_mode & S_ISGID && st.st_gid != getgid())))
		ckx_error("%s runs with the rights of another user, so it will not load the client",
			  program);
}

/* NVTX in the program loads the library of this name, for its ranges. */
static void show_markers(void)
{
	char folder[CKX_PATH], client[CKX_PATH + 32];

	if (ckx_install_path_library(folder) < 0)
		return;
	snprintf(client, sizeof(client), "%s/cricket-client.so", folder);
	setenv("NVTX_INJECTION64_PATH", client, 0);
}

/* The client makes the file, and takes one that exists for another process's. So the one of an
 * earlier run goes, and a file that cannot be made is an error now. */
static int prepare_profile(const char *file)
{
	char folder[CKX_PATH] = "", *path;
	int fd, ret = 0;

	if (file[0] != '/' && !getcwd(folder, sizeof(folder)))
		return -errno;
	if (asprintf(&path, "%s%s%s", folder, file[0] == '/' ? "" : "/", file) < 0)
		return -ENOMEM;
	if (unlink(path) < 0 && errno != ENOENT)
		ret = -errno;
	fd = ret == 0 ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
	if (fd < 0) {
		ret = ret ? ret : -errno;
		ckx_error("%s: %s", path, strerror(-ret));
	} else {
		close(fd);
		unlink(path);
		ret = setenv("CRICKET_PROFILE", path, 1) < 0 ? -errno : 0;
		show_markers();
	}
	free(path);
	return ret;
}

/* A far server cannot know whether a program was killed, or is only cut off. */
static void reap_later(void)
{
	struct ckx_server server; /* as the program's variables say */

	if (ckx_server_find(NULL, &server) < 0)
		return;
	ckx_ended_programs_later(&server);
	explicit_bzero(server.token, sizeof(server.token));
}

static int emulate_checked(struct ckx_emulated *emulated)
{
	int own = ckx_findings_begin(), ret;

	if (own < 0) {
		ckx_error("--check: %s", strerror(-own));
		return own;
	}
	ret = ckx_emulate(NULL, emulated);
	ckx_findings_started(own);
	return ret;
}

/* Start the emulated GPU if the user asked for it: it is the server then. */
static int start_emulated(struct ckx_wishes *wishes)
{
	static struct ckx_emulated emulated;
	int ret = ckx_server_is_emulated(wishes->server);

	if (ret == 1) {
		ret = wishes->check ? emulate_checked(&emulated) : ckx_emulate(NULL, &emulated);
		wishes->server = emulated.address;
		wishes->assembler = emulated.assembler;
	} else if (ret == 0 && wishes->check) {
		ckx_error("--check needs the emulated GPU: cricket run -s emu --check PROGRAM");
		ret = -EINVAL;
	}
	return ret;
}

int ckx_run(const struct ckx_command *self, int argc, char **argv)
{
	struct ckx_settings settings;
	struct ckx_wishes wishes;
	int ret;

	if (ckx_settings_parse(argc, argv, &wishes) < 0 || optind == argc || wishes.format)
		return ckx_usage(self);
	wishes.look_up = true;
	ret = start_emulated(&wishes);
	if (ret < 0)
		return ret == -EINVAL ? CKX_USAGE : CKX_FAILED;
	ret = ckx_settings_make(&wishes, &settings);
	for (size_t i = 0; ret == 0 && i < settings.count; i++)
		ret = setenv(settings.list[i].name, settings.list[i].value, 1) < 0 ? -errno : 0;
	ckx_settings_free(&settings);
	if (ret == 0)
		reap_later();
	if (ret == 0 && wishes.profile && prepare_profile(wishes.profile) < 0)
		return CKX_FAILED;
	if (ret < 0)
		return ret == -EINVAL ? CKX_USAGE : CKX_FAILED;
	warn_if_privileged(argv[optind]);
	execvp(argv[optind], argv + optind);
	ret = errno;
	ckx_error("%s: %s%s", argv[optind], strerror(ret),
		  ret == ENOENT && !wishes.server && optind + 1 < argc
			  ? "; a server is named with -s: cricket run -s SERVER PROGRAM"
			  : "");
	return ret == ENOENT || ret == ENOTDIR ? CKX_NOT_FOUND : CKX_CANNOT_RUN;
}
