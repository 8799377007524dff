/*
 * command/run/cdi.c - `cricket cdi`: a CDI specification (Container Device Interface), by which
 * engines give a container the client as a device.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/config/server.h"
#include "command/run/container.h"
#include "util/process/replace.h"
#include "util/util.h"

#define VERSION "0.5.0" /* the newest one that podman 4.3 accepts */
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define ALNUM LETTERS "0123456789"

struct cdi {
	const char *kind, *name, *output;
};

/* Is @text, up to @length, a name with only @more beside letters and digits, and those at its ends?
 */
static bool is_word(const char *text, size_t length, const char *more)
{
	for (size_t i = 0; i < length; i++) {
		bool inner = i > 0 && i + 1 < length;

		if (!strchr(ALNUM, text[i]) && !(inner && strchr(more, text[i])))
			return false;
	}
	return length > 0;
}

/* VENDOR/CLASS; both begin with a letter. */
static bool is_kind(const char *kind)
{
	size_t vendor = strcspn(kind, "/");
	const char *class = kind + vendor + (kind[vendor] == '/');

	return strchr(LETTERS, kind[0]) && strchr(LETTERS, class[0]) &&
	       is_word(kind, vendor, "_-.") && is_word(class, strlen(class), "_-.");
}

static int check_names(const struct cdi *cdi)
{
	if (!is_kind(cdi->kind))
		ckx_error("--kind is VENDOR/CLASS, as in cricket/gpu: %s", cdi->kind);
	else if (!is_word(cdi->name, strlen(cdi->name), "_-.:"))
		ckx_error("--name: letters, digits and, between them, ._-: only: %s", cdi->name);
	else
		return 0;
	return -EINVAL;
}

static json_t *describe_mounts(const struct ckx_container *c)
{
	json_t *mounts = json_array();

	for (size_t i = 0; i < c->mount_count; i++)
		json_array_append_new(mounts, json_pack("{s:s, s:s, s:[s, s, s, s]}", "hostPath",
							c->mounts[i].host, "containerPath",
							c->mounts[i].inside, "options", "ro",
							"nosuid", "nodev", "bind"));
	return mounts;
}

static json_t *describe_device(const struct cdi *cdi, const struct ckx_container *c)
{
	json_t *env = json_array();

	for (size_t i = 0; i < c->settings.count; i++)
		json_array_append_new(env, json_sprintf("%s=%s", c->settings.list[i].name,
							c->settings.list[i].value));
	return json_pack("{s:s, s:s, s:[{s:s, s:{s:o, s:o}}]}", "cdiVersion", VERSION, "kind",
			 cdi->kind, "devices", "name", cdi->name, "containerEdits", "env", env,
			 "mounts", describe_mounts(c));
}

static int dump(const json_t *specification, FILE *out)
{
	return json_dumpf(specification, out, JSON_INDENT(2)) < 0 || fputc('\n', out) == EOF ? -EIO
											     : 0;
}

/* The folder is made: engines look into one that no package has. */
static int write_file(const json_t *specification, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct ck_replace file;
	char folder[CKX_PATH];
	int ret = 0;

	if (slash > path &&
	    snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path) < CKX_PATH)
		ret = ckx_install_path_make(folder, 0755);
	if (ret == 0)
		ret = ck_replace_begin(&file, path, 0644);
	if (ret == 0) {
		int dumped = dump(specification, file.out);

		ret = ck_replace_end(&file, dumped == 0);
		ret = dumped < 0 ? dumped : ret;
	}
	if (ret < 0)
		ckx_error("%s: %s", path, strerror(-ret));
	return ret;
}

static int write_specification(const struct cdi *cdi, const struct ckx_container *c)
{
	json_t *specification = describe_device(cdi, c);
	int ret = specification ? 0 : -ENOMEM;

	if (ret < 0)
		ckx_error("a value of the specification is no text in UTF-8");
	else if (cdi->output)
		ret = write_file(specification, cdi->output);
	else
		ret = dump(specification, stdout);
	json_decref(specification);
	return ret;
}

/* The device is called as the server is in a configuration file. */
static int name_device(const struct ckx_wishes *wishes, struct ckx_server *server, struct cdi *cdi)
{
	char token_file[CKX_TEXT];
	int ret = cdi->name ? 0 : ckx_server_name(wishes->server, server, token_file);

	if (ret == 0 && !cdi->name)
		cdi->name = server->name[0] ? server->name : "all";
	return ret == 0 ? check_names(cdi) : ret;
}

int ckx_cdi(const struct ckx_command *self, int argc, char **argv)
{
	static struct ckx_container container;
	struct cdi cdi = {.kind = "cricket/gpu"};
	const struct ckx_own own[] = {
		{"kind", &cdi.kind}, {"name", &cdi.name}, {"output", &cdi.output}};
	int left = ckx_settings_take(argc, argv, own, CK_ARRAY_SIZE(own));
	struct ckx_server server;
	struct ckx_wishes wishes;
	int ret;

	if (left < 0)
		return CKX_USAGE;
	if (ckx_settings_parse(left, argv, &wishes) < 0 || optind < left || wishes.format ||
	    ckx_settings_of_run(&wishes))
		return ckx_usage(self);
	ret = ckx_server_is_emulated(wishes.server);
	if (ret == 1)
		return ckx_container_no_emulated();
	if (ret == 0)
		ret = name_device(&wishes, &server, &cdi);
	if (ret < 0)
		return CKX_USAGE;
	ret = ckx_container_make(&wishes, false, &container);
	if (ret == 0)
		ret = write_specification(&cdi, &container);
	ckx_container_free(&container);
	return ret == 0 ? CKX_OK : ret == -EINVAL ? CKX_USAGE : CKX_FAILED;
}
