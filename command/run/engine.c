/*
 * command/run/engine.c - `cricket docker` and `cricket podman`: the engine of that name starts a
 * container with the client, by options that every version has.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/run/container.h"
#include "command/run/run.h"

struct words {
	char **list;
	size_t count;
};

/* Add two words, the second as printf makes it. */
static int add_option(struct words *w, const char *option, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int add_option(struct words *w, const char *option, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&w->list[w->count + 1], format, args);
	va_end(args);
	if (n < 0)
		return -ENOMEM;
	w->list[w->count] = (char *)(uintptr_t)option;
	w->count += 2;
	return 0;
}

static int add_mount(struct words *w, const struct ckx_mount *m)
{
	if (strpbrk(m->host, ",\"")) {
		ckx_error("%s: engines accept no path with a comma or a quotation mark", m->host);
		return -EINVAL;
	}
	return add_option(w, "--mount", "type=bind,source=%s,target=%s,readonly", m->host,
			  m->inside);
}

/* The command line: @engine, its command, the container's options, the rest of @argv. @id_file: for
 * the container's id, unless it is empty. */
static int make_words(struct words *w, const char *engine, int argc, char **argv,
		      const struct ckx_container *c, const char *id_file)
{
	int ret = 0;

	w->list = calloc((size_t)argc + 2 * (CKX_MOUNTS + CKX_SETTINGS) + 4, sizeof(*w->list));
	if (!w->list)
		return -ENOMEM;
	w->list[w->count++] = (char *)(uintptr_t)engine;
	w->list[w->count++] = argv[0];
	for (size_t i = 0; ret == 0 && i < c->mount_count; i++)
		ret = add_mount(w, &c->mounts[i]);
	for (size_t i = 0; ret == 0 && i < c->settings.count; i++)
		ret = add_option(w, "--env", "%s=%s", c->settings.list[i].name,
				 c->settings.list[i].value);
	if (ret == 0 && id_file[0])
		ret = add_option(w, "--cidfile", "%s", id_file);
	for (int i = 1; i < argc; i++)
		w->list[w->count++] = argv[i];
	return ret;
}

/* Does the engine give its containers the rights of this user alone? Docker's service is root. */
static bool is_rootless(const char *engine, int argc, char **argv)
{
	bool rootless = strcmp(engine, "podman") == 0 && geteuid() != 0;

	for (int i = 0; i < argc; i++)
		rootless &= !strstr(argv[i], "keep-groups");
	return rootless;
}

int ckx_engine(const struct ckx_command *self, int argc, char **argv)
{
	static struct ckx_container container;
	static struct ckx_emulated emulated;
	struct words words = {.count = 0};
	struct ckx_wishes wishes;
	int ret;

	if (ckx_settings_parse(argc, argv, &wishes) < 0 || wishes.format ||
	    ckx_settings_of_run(&wishes) || optind == argc)
		return ckx_usage(self);
	if (strcmp(argv[optind], "run") != 0 && strcmp(argv[optind], "create") != 0) {
		ckx_error("only run and create make containers: %s", argv[optind]);
		return ckx_usage(self);
	}
	ret = ckx_server_is_emulated(wishes.server);
	if (ret == 1 && strcmp(argv[optind], "run") != 0)
		return ckx_container_no_emulated();
	if (ret == 1) {
		ret = ckx_emulate(self->name, &emulated);
		wishes.server = emulated.address;
		wishes.assembler = emulated.assembler;
	}
	if (ret == 0)
		ret = ckx_container_make(
			&wishes, is_rootless(self->name, argc - optind, argv + optind), &container);
	if (ret == 0)
		ret = make_words(&words, self->name, argc - optind, argv + optind, &container,
				 emulated.container);
	ckx_container_free(&container);
	if (ret < 0)
		return ret == -EINVAL ? CKX_USAGE : CKX_FAILED;
	execvp(self->name, words.list);
	ret = errno;
	ckx_error("%s: %s", self->name, strerror(ret));
	return ret == ENOENT || ret == ENOTDIR ? CKX_NOT_FOUND : CKX_CANNOT_RUN;
}
