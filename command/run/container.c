/*
 * command/run/container.c - see container.h.
 *
 * The variables are those of `cricket run`. Where a value names something of this host, a container
 * gets it as a mount, and the value becomes the place of the mount.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/run/container.h"
#include "command/run/ptxas.h"
#include "command/sessions/local.h"
#include "util/process/replace.h"
#include "util/address/servers.h"
#include "util/util.h"

#define RUN_FOLDER "/run/cricket"
#define ADDRESS "REMOTE_GPU_ADDRESS"
#define TOKENS "container-tokens/" /* in the user's folder; a file each server */

/* --- mounts */

/* Show the file or folder @path of this host at @inside of the container. */
static int add_mount(struct ckx_container *c, const char *path, const char *inside)
{
	struct ckx_mount *mount = &c->mounts[c->mount_count];
	char *whole = realpath(path, NULL);
	int ret = whole ? 0 : -errno;

	if (ret == 0 && c->mount_count == CKX_MOUNTS)
		ret = -E2BIG;
	if (ret == 0 && snprintf(mount->host, CKX_PATH, "%s", whole) >= CKX_PATH)
		ret = -ENAMETOOLONG;
	free(whole);
	if (ret < 0) {
		ckx_error("%s: cannot be mounted into a container: %s", path, strerror(-ret));
		return ret;
	}
	snprintf(mount->inside, sizeof(mount->inside), "%s", inside);
	c->mount_count++;
	return 0;
}

static int add_library(struct ckx_container *c)
{
	char folder[CKX_PATH];
	int ret = ckx_install_path_library(folder);

	if (ret == 0)
		ret = add_mount(c, folder, CKX_CONTAINER_LIBRARY);
	return ret < 0 ? ret : add_mount(c, "/proc/self/exe", "/usr/local/bin/cricket");
}

/* --- the address */

/* Can the container connect to the socket at @path? NULL, or why not. */
static const char *socket_wrong(const struct ckx_container *c, const char *path)
{
	struct stat st;
	mode_t needed;

	if (!c->rootless || stat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return NULL;
	needed = st.st_uid == geteuid() ? S_IWUSR : st.st_gid == getegid() ? S_IWGRP : S_IWOTH;
	if (st.st_mode & needed)
		return NULL;
	return access(path, W_OK) == 0
		       ? "containers of rootless podman do not have this user's further groups, "
			 "and so no right to this socket; with crun, --group-add keep-groups keeps "
			 "them"
		       : "this user may not use this socket";
}

/* Mount the socket or list of a server, and put the address that it has in the container into
 * @out. */
static int carry_path(struct ckx_container *c, const char *scheme, const char *path,
		      char out[CK_ADDRESS_MAX])
{
	const char *wrong = socket_wrong(c, path);
	char inside[sizeof(c->mounts[0].inside)];

	if (wrong) {
		ckx_error("%s:%s: %s", scheme, path, wrong);
		return -EACCES;
	}
	snprintf(inside, sizeof(inside), RUN_FOLDER "/server%u", ++c->servers);
	snprintf(out, CK_ADDRESS_MAX, "%s:%s", scheme, inside);
	return add_mount(c, path, inside);
}

/* The socket that @local has found; its connection ends. */
static int carry_local(struct ckx_container *c, struct ckx_local *local, char out[CK_ADDRESS_MAX])
{
	close(local->fd);
	return carry_path(c, "unix", local->stem, out);
}

static int carry_usual(struct ckx_container *c, char out[CK_ADDRESS_MAX])
{
	struct ckx_local local;
	int ret = ckx_local_usual(&local);

	if (ret == 0)
		return carry_local(c, &local, out);
	ckx_error("no server of this host answers at its usual socket: %s; name one with --server",
		  strerror(-ret));
	return ret;
}

/* As for programs of this host, the socket of a server here serves for its host. */
static int carry_host(struct ckx_container *c, const struct ck_address *address,
		      char out[CK_ADDRESS_MAX])
{
	const char *wrong = "no server of this host says that it listens there";
	struct ckx_local local;
	int ret = address->bare ? ckx_local_listening(address, &local) : -EREMOTE;

	if (ret == 0) {
		wrong = socket_wrong(c, local.stem);
		if (!wrong)
			return carry_local(c, &local, out);
		close(local.fd);
	}
	if (ret == 0 || ret == -ESRCH || ret == -EADDRNOTAVAIL)
		ckx_error("%s: %s%s%s; a container reaches this address only with --network host",
			  address->text, ret == 0 ? local.stem : "", ret == 0 ? ": " : "", wrong);
	snprintf(out, CK_ADDRESS_MAX, "%s", address->text);
	return 0;
}

static int carry_server(struct ckx_container *c, const char *text, char out[CK_ADDRESS_MAX])
{
	struct ck_address address;
	char why[CK_ADDRESS_WHY];

	if (ck_address_parse(text, &address, why) < 0) {
		ckx_error("%s: %s", text, why);
		return -EINVAL;
	}
	switch (address.kind) {
	case CK_ADDRESS_USUAL:
		return carry_usual(c, out);
	case CK_ADDRESS_TCP:
		return carry_host(c, &address, out);
	case CK_ADDRESS_UNIX:
		return carry_path(c, "unix", address.path, out);
	case CK_ADDRESS_SHM:
		return carry_path(c, "shm", address.path, out);
	case CK_ADDRESS_FILE:
		return carry_path(c, "file", address.path, out);
	case CK_ADDRESS_SSH:
	case CK_ADDRESS_LOCAL:
		ckx_error("%s: a container has neither ssh nor a server of its own; "
			  "name a server by HOST or unix:/PATH",
			  text);
		return -EINVAL;
	default:
		snprintf(out, CK_ADDRESS_MAX, "%s", text);
		return 0;
	}
}

/* The servers of @list, as REMOTE_GPU_ADDRESS has them. */
static int carry_list(struct ckx_container *c, const char *list, FILE *out)
{
	struct ck_server_list *servers = malloc(sizeof(*servers));
	char address[CK_ADDRESS_MAX], why[CK_ADDRESS_WHY] = "out of memory";
	int ret = servers ? ck_servers_parse(list, servers, why) : -ENOMEM;

	if (ret < 0)
		ckx_error("%s: %s", list, why);
	for (unsigned int i = 0; ret == 0 && i < servers->count; i++) {
		const struct ck_server_entry *e = &servers->entries[i];
		const char *devices;

		ret = carry_server(c, e->address, address);
		if (ret < 0)
			break;
		devices = ck_address_has(address, CK_ADDRESS_PATH) ? "//" : "/";
		fprintf(out, "%s%s", i ? "," : "", address);
		for (unsigned int d = 0; d < e->count; d++)
			fprintf(out, "%s%u", d ? "," : devices, e->devices[d]);
	}
	free(servers);
	return ret;
}

static int carry_address(struct ckx_container *c, struct ckx_setting *s)
{
	const char bar[] = {CK_SERVERS_OR, '\0'};
	char *lists = s->value, *value = NULL;
	size_t size;
	FILE *out = open_memstream(&value, &size);
	int ret = out ? 0 : -ENOMEM;

	while (ret == 0 && lists) {
		ret = carry_list(c, strsep(&lists, bar), out);
		if (ret == 0 && lists)
			fputs(bar, out);
	}
	if (out && fclose(out) != 0)
		ret = -ENOMEM;
	free(s->value);
	s->value = value;
	return ret;
}

/* --- token and files */

/* The file for the token of the server at @address, in a folder that is made. -errno, printed. */
static int place_token(const char *address, char out[CKX_PATH])
{
	char name[256];
	int n = snprintf(name, sizeof(name), TOKENS);

	snprintf(name + n, sizeof(name) - (size_t)n, "%.200s", *address ? address : "local");
	for (char *at = name + n; *at; at++)
		*at = strchr("/|,:@", *at) ? '_' : *at;
	return ckx_install_path_own_folder(name, out);
}

/* Write the token into a file, which the container has. */
static int carry_token(struct ckx_container *c, struct ckx_setting *s)
{
	char path[CKX_PATH];
	struct ck_replace file;
	int ret = place_token(ckx_settings_find(&c->settings, ADDRESS)->value, path);

	if (ret < 0)
		return ret;
	ret = ck_replace_begin(&file, path, 0600);
	if (ret == 0) {
		fprintf(file.out, "%s\n", s->value);
		ret = ck_replace_end(&file, true);
	}
	explicit_bzero(s->value, strlen(s->value));
	free(s->value);
	s->name = "CRICKET_TOKEN_FILE";
	s->value = strdup(RUN_FOLDER "/token");
	if (ret == 0 && !s->value)
		ret = -ENOMEM;
	if (ret < 0) {
		ckx_error("the file for the token: %s", strerror(-ret));
		return ret;
	}
	return add_mount(c, path, s->value);
}

static int carry_file(struct ckx_container *c, struct ckx_setting *s)
{
	char inside[sizeof(c->mounts[0].inside)];
	int ret;

	snprintf(inside, sizeof(inside), RUN_FOLDER "/%s", s->name);
	ret = add_mount(c, s->value, inside);
	free(s->value);
	s->value = strdup(inside);
	return ret == 0 && !s->value ? -ENOMEM : ret;
}

/* The command has the assembler's name there. */
static int carry_assembler(struct ckx_container *c, struct ckx_setting *s)
{
	int ret = add_mount(c, s->value, RUN_FOLDER "/" CKX_PTXAS);

	free(s->value);
	s->value = strdup(RUN_FOLDER "/" CKX_PTXAS);
	return ret == 0 && !s->value ? -ENOMEM : ret;
}

/* The settings that name something of this host. The token's file has its name of the address. */
static const struct {
	const char *name;
	int (*carry)(struct ckx_container *c, struct ckx_setting *setting);
} carried[] = {
	{"CRICKET_TOKEN", carry_token},	  {"CRICKET_TLS_CA", carry_file},
	{"CRICKET_TLS_CERT", carry_file}, {"CRICKET_TLS_KEY", carry_file},
	{ADDRESS, carry_address},	  {CKX_PTXAS_VARIABLE, carry_assembler},
};

int ckx_container_no_emulated(void)
{
	ckx_error("-s emu: only a container of `cricket docker run` or `cricket podman run` has an "
		  "emulated GPU of its own; start a server, cricket-rpc-server --driver emu --unix "
		  "/PATH, and name it: -s unix:/PATH");
	return CKX_USAGE;
}

int ckx_container_make(const struct ckx_wishes *wishes, bool rootless, struct ckx_container *c)
{
	struct ckx_wishes own = *wishes;
	int ret;

	own.container = own.look_up = true;
	c->mount_count = c->servers = 0;
	c->rootless = rootless;
	ret = ckx_settings_make(&own, &c->settings);
	if (ret == 0)
		ret = add_library(c);
	for (size_t i = 0; ret == 0 && i < CK_ARRAY_SIZE(carried); i++) {
		struct ckx_setting *s = ckx_settings_find(&c->settings, carried[i].name);

		ret = s ? carried[i].carry(c, s) : 0;
	}
	return ret;
}

void ckx_container_free(struct ckx_container *c)
{
	ckx_settings_free(&c->settings);
}
