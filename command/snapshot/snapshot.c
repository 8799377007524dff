/*
 * command/snapshot/snapshot.c - `cricket snapshot`: start a program, and write it and its sessions
 * into files when it is ready.
 *
 * First the program loses its connections and makes no new ones (the word "hold", see
 * client/link/repair.h), as its sessions are written. Messages that it sends from then on are in
 * its own memory, which CRIU writes next. So both parts fit.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/config/server.h"
#include "command/run/settings.h"
#include "command/sessions/control.h"
#include "command/snapshot/files.h"
#include "command/snapshot/named_server.h"
#include "command/snapshot/program.h"
#include "util/until.h"

struct making {
	struct ckx_wishes wishes;
	struct ckx_ready ready;
	struct ckx_snapshot files;
	struct ckx_program program;
	struct ckx_images images;
	char server[CKX_TEXT]; /* as the program dials it */
	int port;
	char folder[CKX_PATH], log[CKX_PATH], named[CKX_PATH];
	char sessions[CKX_SNAPSHOT_SESSIONS][32];
	int session_count;
	uint64_t session_bytes;
};

/* The environment of `cricket run`, but the server is in the snapshot's file. */
static int set_environment(struct making *m)
{
	char address[CKX_PATH + 8];
	struct ckx_settings settings;
	int ret = ckx_settings_make(&m->wishes, &settings);

	for (size_t i = 0; ret == 0 && i < settings.count; i++)
		ret = setenv(settings.list[i].name, settings.list[i].value, 1) < 0 ? -errno : 0;
	ckx_settings_free(&settings);
	if (ret == 0)
		ret = ckx_named_server_write(m->named, m->server, "");
	snprintf(address, sizeof(address), "file:%s", m->named);
	if (ret == 0 && setenv("REMOTE_GPU_ADDRESS", address, 1) < 0)
		ret = -errno;
	return ret;
}

static int write_session(struct making *m, int control, int number)
{
	char folder[CKX_PATH], name[32];
	json_t *reply;

	snprintf(name, sizeof(name), "session-%d", number);
	reply = ckx_control_ask(control,
				json_pack("{s:s, s:s, s:s, s:b}", "command", "checkpoint",
					  "session", m->sessions[number], "directory",
					  ckx_snapshot_path(&m->files, name, folder), "quiet", 1));
	if (!reply)
		return -EIO;
	m->session_bytes += (uint64_t)json_integer_value(json_object_get(reply, "size"));
	json_decref(reply);
	return 0;
}

static int write_sessions(struct making *m)
{
	int control = ckx_control_open(m->wishes.server), ret = control < 0 ? control : 0;

	if (ret == 0)
		ret = m->session_count =
			ckx_program_sessions(control, m->sessions, CKX_SNAPSHOT_SESSIONS);
	if (ret > 0)
		ret = ckx_named_server_write(m->named, m->server, "hold");
	for (int i = 0; ret == 0 && i < m->session_count; i++)
		ret = write_session(m, control, i);
	if (control >= 0)
		close(control);
	return ret;
}

static json_t *describe(const struct making *m, pid_t pid, const char *program)
{
	json_t *pipes = json_array();

	for (int i = 0; i < CKX_PIPES; i++)
		json_array_append_new(pipes, json_integer((json_int_t)m->images.pipes[i]));
	return json_pack("{s:s, s:s, s:s, s:I, s:i, s:i, s:o}", "release", CK_RELEASE, "program",
			 program, "server", m->server, "created", (json_int_t)time(NULL), "pid",
			 (int)pid, "sessions", m->session_count, "pipes", pipes);
}

static int make(struct making *m, char **argv)
{
	int64_t begin = 0;
	uint64_t bytes = 0;
	pid_t pid = 0;
	int ret = ckx_program_start(&m->program, argv, &m->images);

	if (ret == 0)
		ret = ckx_program_wait(&m->program, &m->ready);
	if (ret == 0) {
		begin = ck_now_ms();
		pid = m->program.pid;
		ret = write_sessions(m);
	}
	if (ret == 0)
		ret = ckx_program_cut(m->port);
	if (ret == 0)
		ret = ckx_images_write(&m->images, pid);
	ckx_program_end(&m->program);
	if (ret == 0)
		ret = ckx_named_server_write(m->named, m->server, "");
	if (ret == 0)
		ret = ckx_snapshot_complete(&m->files, describe(m, pid, argv[0]), &bytes);
	if (ret == 0)
		ckx_error("snapshot %s: %llu MiB of the program, %llu MiB of its session%s, in "
			  "%.1f s",
			  m->files.name, (unsigned long long)bytes >> 20,
			  (unsigned long long)m->session_bytes >> 20,
			  m->session_count > 1 ? "s" : "", (double)(ck_now_ms() - begin) / 1e3);
	return ret;
}

/* The name comes first, so that options cannot be the program's. */
int ckx_snapshot(const struct ckx_command *self, int argc, char **argv)
{
	static struct making m;
	int ret;

	if (argc < 3 || argv[1][0] == '-')
		return ckx_usage(self);
	m.files.name = argv[1];
	argv[1] = argv[0];
	if (ckx_settings_parse(argc - 1, argv + 1, &m.wishes) < 0 || optind == argc - 1 ||
	    m.wishes.format || m.wishes.profile || m.wishes.check || m.wishes.from)
		return ckx_usage(self);
	m.wishes.look_up = true;
	if (ckx_ready_parse(m.wishes.at, &m.ready) < 0)
		return CKX_USAGE;
	umask(077);
	ret = ckx_images_check();
	if (ret == 0)
		ret = ckx_named_server_find(m.wishes.server, m.server, &m.port);
	if (ret == 0)
		ret = ckx_snapshot_create(m.files.name, &m.files);
	if (ret < 0)
		return CKX_FAILED;
	m.images.folder = ckx_snapshot_path(&m.files, "program", m.folder);
	m.images.log = ckx_snapshot_path(&m.files, "dump.log", m.log);
	ckx_snapshot_path(&m.files, "server", m.named);
	ret = mkdir(m.folder, 0700) < 0 ? -errno : set_environment(&m);
	if (ret == 0)
		ret = make(&m, argv + 1 + optind);
	if (ret < 0)
		ckx_snapshot_remove(&m.files);
	return ret < 0 ? CKX_FAILED : CKX_OK;
}
