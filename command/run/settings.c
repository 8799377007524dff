/*
 * command/run/settings.c - see settings.h.
 *
 * LD_PRELOAD makes the client the driver for a program that opens libcuda.so.1 in any way. The
 * folder on LD_LIBRARY_PATH is for programs that are linked with libcuda or NVML, which the dynamic
 * linker looks for before it preloads. Triton compiles against libcuda.so, and looks for it by a
 * variable of its own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/config/install_paths.h"
#include "command/config/server.h"
#include "command/run/ptxas.h"
#include "command/run/settings.h"
#include "command/servers/choose.h"
#include "command/servers/fleet.h"
#include "util/env.h"
#include "util/nccl.h"
#include "util/util.h"

#define GPUS_MAX 64
#define MEMORY_LEAST (1 << 20) /* bytes; less is a number without its unit */

static const struct option options[] = {
	{"server", required_argument, NULL, 's'},  {"gpus", required_argument, NULL, 'g'},
	{"devices", required_argument, NULL, 'd'}, {"mem", required_argument, NULL, 'm'},
	{"wait", required_argument, NULL, 'w'},	   {"format", required_argument, NULL, 'f'},
	{"profile", required_argument, NULL, 'p'}, {"worker-prefix", required_argument, NULL, 'W'},
	{"nccl", required_argument, NULL, 'n'},	   {"check", no_argument, NULL, 'c'},
	{"sm", required_argument, NULL, 'S'},	   {"from", required_argument, NULL, 'F'},
	{"at", required_argument, NULL, 'A'},	   {NULL, 0, NULL, 0},
};

/* The value of the option @name at argv[*@at], which may be in the next word; NULL: it is another
 * one. */
static const char *option_value(const char *name, int argc, char **argv, int *at)
{
	size_t size = strlen(name);
	const char *word = argv[*at];

	if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, name, size) != 0)
		return NULL;
	if (word[2 + size] == '=')
		return word + 3 + size;
	return !word[2 + size] && *at + 1 < argc ? argv[++*at] : NULL;
}

int ckx_settings_take(int argc, char **argv, const struct ckx_own *own, size_t count)
{
	int left = 1;

	for (int i = 1; i < argc; i++) {
		bool taken = false;

		for (size_t j = 0; !taken && j < count; j++) {
			const char *value = option_value(own[j].name, argc, argv, &i);

			taken = value != NULL;
			*own[j].value = taken ? value : *own[j].value;
			if (taken && !*value) {
				ckx_error("--%s: its value is empty", own[j].name);
				return -EINVAL;
			}
		}
		if (!taken)
			argv[left++] = argv[i];
	}
	return left;
}

/* The member for the value of @option; NULL: there is none. */
static const char **find_value(struct ckx_wishes *w, int option)
{
	const struct {
		int option;
		const char **value;
	} all[] = {
		{'s', &w->server},  {'g', &w->gpus}, {'d', &w->devices}, {'m', &w->memory},
		{'S', &w->sm},	    {'w', &w->wait}, {'f', &w->format},	 {'W', &w->prefix},
		{'p', &w->profile}, {'n', &w->nccl}, {'F', &w->from},	 {'A', &w->at},
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(all); i++) {
		if (all[i].option == option)
			return all[i].value;
	}
	return NULL;
}

int ckx_settings_parse(int argc, char **argv, struct ckx_wishes *w)
{
	int option;

	*w = (struct ckx_wishes){.format = NULL};
	while ((option = getopt_long(argc, argv, "+s:g:d:m:w:f:p:W:n:c", options, NULL)) != -1) {
		const char **value = find_value(w, option);

		if (!value && option != 'c')
			return -EINVAL;
		if (value)
			*value = optarg;
		else
			w->check = true;
	}
	if (w->gpus && w->devices) {
		ckx_error("--gpus and --devices cannot be used together");
		return -EINVAL;
	}
	return 0;
}

bool ckx_settings_of_run(const struct ckx_wishes *w)
{
	return w->profile || w->check || w->from || w->at;
}

/* Add @name with a value that printf makes. */
static int add_setting(struct ckx_settings *s, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int add_setting(struct ckx_settings *s, const char *name, const char *format, ...)
{
	struct ckx_setting *setting = &s->list[s->count];
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&setting->value, format, args);
	va_end(args);
	if (n < 0)
		return -ENOMEM;
	setting->name = name;
	s->count++;
	return 0;
}

/* Put @entry in front of the list in variable @name, unless it is in it. */
static int add_first(struct ckx_settings *s, const struct ckx_wishes *w, const char *name,
		     const char *entry)
{
	const char *list = w->container ? NULL : getenv(name);
	size_t size = strlen(entry);

	for (const char *at = list; at && *at; at += strcspn(at, ": ") + !!at[strcspn(at, ": ")]) {
		if (strncmp(at, entry, size) == 0 && (!at[size] || strchr(": ", at[size])))
			return add_setting(s, name, "%s", list);
	}
	return list && *list ? add_setting(s, name, "%s:%s", entry, list)
			     : add_setting(s, name, "%s", entry);
}

/* Put the client in @folder into LD_PRELOAD, and libraries whose functions a program must find
 * before those of its own: the stand-in for NCCL if @nccl, on an own emulated GPU those for
 * NVIDIA's compilers. */
static int add_preloads(struct ckx_settings *s, const struct ckx_wishes *w, const char *folder,
			bool nccl)
{
	const char *const names[] = {"cricket-client.so", nccl ? "libnccl.so.2" : NULL,
				     w->assembler ? "libcricket-ptx.so" : NULL};
	char list[CK_ARRAY_SIZE(names) * (CKX_PATH + 32)];
	size_t n = 0;

	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		if (names[i])
			n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s/%s", n ? ":" : "",
					      folder, names[i]);
	}
	return add_first(s, w, "LD_PRELOAD", list);
}

struct ckx_setting *ckx_settings_find(struct ckx_settings *s, const char *name)
{
	for (size_t i = 0; i < s->count; i++) {
		if (strcmp(s->list[i].name, name) == 0)
			return &s->list[i];
	}
	return NULL;
}

/* Where NCCL runs: an option, else the variable. */
static int choose_nccl(struct ckx_settings *s, const struct ckx_wishes *w)
{
	const char *word = w->nccl	  ? w->nccl
			   : w->container ? "auto"
					  : ck_env_string("CRICKET_NCCL");
	const struct ckx_setting *address = ckx_settings_find(s, "REMOTE_GPU_ADDRESS");
	int nccl = ck_nccl_in_workers(word, address ? address->value
						    : ck_env_string("REMOTE_GPU_ADDRESS"));

	if (nccl < 0) {
		ckx_error("%s: not auto, workers or program: %s",
			  w->nccl ? "--nccl" : "CRICKET_NCCL", word);
		return nccl;
	}
	return w->nccl && add_setting(s, "CRICKET_NCCL", "%s", w->nccl) < 0 ? -ENOMEM : nccl;
}

/* @nccl: it runs in the workers. */
static int add_library(struct ckx_settings *s, const struct ckx_wishes *w, bool nccl)
{
	char folder[CKX_PATH], client[CKX_PATH + 32];
	int ret = ckx_install_path_library(folder);

	if (ret < 0)
		return ret;
	snprintf(client, sizeof(client), "%s/libnccl.so.2", folder);
	nccl = nccl && access(client, R_OK) == 0;
	if (w->container)
		strcpy(folder, CKX_CONTAINER_LIBRARY);
	if (!ckx_install_path_loads(folder)) {
		ckx_error("%s: " CKX_NOT_LOADED, folder);
		return -EINVAL;
	}
	ret = add_preloads(s, w, folder, nccl);
	snprintf(client, sizeof(client), "%s/lib", folder);
	if (ret == 0)
		ret = add_first(s, w, "LD_LIBRARY_PATH", client);
	return ret < 0 ? ret : add_setting(s, "TRITON_LIBCUDA_PATH", "%s", client);
}

static int read_gpus(const char *text, long least, long *count)
{
	char *end;

	*count = strtol(text, &end, 10);
	if (end != text && !*end && *count >= least && *count <= GPUS_MAX)
		return 0;
	ckx_error("--gpus takes a number from %ld to %d: %s", least, GPUS_MAX, text);
	return -EINVAL;
}

/* "3" as "0,1,2". */
static int add_gpus(struct ckx_settings *s, const char *text)
{
	char list[GPUS_MAX * 4] = "";
	size_t n = 0;
	long count;

	if (read_gpus(text, 0, &count) < 0)
		return -EINVAL;
	for (long i = 0; i < count; i++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%ld", i ? "," : "", i);
	return add_setting(s, "CUDA_VISIBLE_DEVICES", "%s", list);
}

static int add_devices(struct ckx_settings *s, const char *list)
{
	return add_setting(s, "CUDA_VISIBLE_DEVICES", "%s", strcmp(list, "none") == 0 ? "" : list);
}

/* Those of an option, else of the variable, else of the @file. */
static int choose_devices(struct ckx_settings *s, const struct ckx_wishes *w, const char *file)
{
	if (w->gpus)
		return add_gpus(s, w->gpus);
	if (w->devices)
		return add_devices(s, w->devices);
	return *file && (w->container || !getenv("CUDA_VISIBLE_DEVICES")) ? add_devices(s, file)
									  : 0;
}

/* An empty word, as of a variable that a script has not set, is no name and no file. */
static int reject_empty(const struct ckx_wishes *w)
{
	const struct {
		const char *option, *value;
	} all[] = {{"worker-prefix", w->prefix}, {"nccl", w->nccl}, {"profile", w->profile}};

	for (size_t i = 0; i < CK_ARRAY_SIZE(all); i++) {
		if (all[i].value && !*all[i].value) {
			ckx_error("--%s: its value is empty", all[i].option);
			return -EINVAL;
		}
	}
	return 0;
}

/* Wrong values are said here, and not by the client alone, which goes on without them. */
static int read_limits(const struct ckx_wishes *w, struct ckx_wish *wish)
{
	unsigned int percent;

	wish->memory = 0;
	wish->wait_seconds = ck_env_seconds("CRICKET_WAIT");
	wish->text = w->memory;
	if (w->memory &&
	    (ck_env_number(w->memory, &wish->memory) < 0 || wish->memory < MEMORY_LEAST)) {
		ckx_error("--mem takes a size of 1M or more, as in 20G or 512M: %s", w->memory);
		return -EINVAL;
	}
	if (w->devices && !ckx_config_takes_devices(w->devices)) {
		ckx_error("--devices takes " CKX_DEVICES ": %s", w->devices);
		return -EINVAL;
	}
	if (w->sm && ck_env_percent(w->sm, &percent) < 0) {
		ckx_error("--sm takes a part, as in 25%%: %s", w->sm);
		return -EINVAL;
	}
	if (w->wait && ck_env_time(w->wait, &wish->wait_seconds) < 0) {
		ckx_error("--wait takes a time, as in 90s, 10m or 2h: %s", w->wait);
		return -EINVAL;
	}
	return reject_empty(w);
}

int ckx_settings_check(const struct ckx_wishes *w)
{
	struct ckx_wish wish;
	long gpus;
	int ret = read_limits(w, &wish);

	if (ret == 0 && w->gpus)
		ret = read_gpus(w->gpus, 0, &gpus);
	if (ret == 0 && w->nccl && ck_nccl_in_workers(w->nccl, "") < 0) {
		ckx_error("--nccl: not auto, workers or program: %s", w->nccl);
		ret = -EINVAL;
	}
	return ret;
}

static int add_limits(struct ckx_settings *s, const struct ckx_wishes *w)
{
	int ret = w->memory ? add_setting(s, "CRICKET_MEMORY", "%s", w->memory) : 0;

	if (ret == 0 && w->sm)
		ret = add_setting(s, "CRICKET_SM", "%s", w->sm);
	if (ret == 0 && w->prefix)
		ret = add_setting(s, "CRICKET_WORKER_PREFIX", "%s", w->prefix);
	return ret == 0 && w->wait ? add_setting(s, "CRICKET_WAIT", "%s", w->wait) : ret;
}

/* GPUs of several servers, or with so much memory free: choose among them. */
static int add_choice(struct ckx_settings *s, const struct ckx_wishes *w,
		      const struct ckx_wish *wish, struct ckx_server *server)
{
	struct ckx_choice choice;
	int ret = ckx_choose(server, wish, &choice);

	if (ret == 0)
		ret = add_setting(s, "REMOTE_GPU_ADDRESS", "%s", choice.address);
	if (ret == 0 && w->memory)
		ret = add_setting(s, "CRICKET_MEMORY", "%s", w->memory);
	if (ret == 0 && w->memory)
		ret = add_setting(s, "CRICKET_NEED", "%s", w->memory);
	if (ret == 0 && wish->wait_seconds)
		ret = add_setting(s, "CRICKET_WAIT", "%llus",
				  (unsigned long long)choice.wait_seconds);
	if (ret == 0 && w->sm)
		ret = add_setting(s, "CRICKET_SM", "%s", w->sm);
	if (ret == 0 && w->prefix)
		ret = add_setting(s, "CRICKET_WORKER_PREFIX", "%s", w->prefix);
	free(choice.address);
	*server = choice.server;
	explicit_bzero(choice.server.token, sizeof(choice.server.token));
	return ret;
}

static int add_tls(struct ckx_settings *s, const struct ckx_wishes *w, const struct ckx_tls *tls)
{
	int ret = 0;

	for (int i = 0; ret == 0 && i < CKX_TLS_SETTINGS; i++) {
		const char *name = ckx_tls_variable((enum ckx_tls_setting)i);
		const char *value = ckx_tls_value(tls, (enum ckx_tls_setting)i);

		if (!value && w->container)
			value = getenv(name); /* which a program of this process has anyway */
		if (value && *value)
			ret = add_setting(s, name, "%s", value);
	}
	return ret;
}

/* The user's values come first, except in a container, which does not have them. */
static int add_ptx(struct ckx_settings *s, const struct ckx_wishes *w)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && w->assembler && i < CKX_PTX_VARIABLES; i++) {
		const struct ckx_ptx_variable *v = &ckx_ptx_variables[i];

		if (w->container || !getenv(v->name))
			ret = add_setting(s, v->name, "%s", v->value ? v->value : w->assembler);
	}
	return ret;
}

/* The total of the GPUs that the program wants. */
static int add_wishes(struct ckx_settings *s, const struct ckx_wishes *w, struct ckx_wish *wish,
		      struct ckx_server *server)
{
	bool several = ckx_fleet_is(server->address);
	long gpus = 0;
	int ret = w->gpus ? read_gpus(w->gpus, several, &gpus) : 0;

	if (ret < 0)
		return ret;
	wish->gpus = (unsigned int)gpus;
	if (gpus > 0 && (several || (wish->memory && server->address[0])))
		return add_choice(s, w, wish, server);
	if (gpus > 0 && ckx_choose_check(server, wish) < 0)
		return -EBUSY;
	return add_limits(s, w);
}

int ckx_settings_make(const struct ckx_wishes *w, struct ckx_settings *s)
{
	struct ckx_server server;
	struct ckx_wish wish;
	int ret;

	*s = (struct ckx_settings){.count = 0};
	ret = ckx_server_find(w->server, &server);
	if (ret == 0)
		ret = read_limits(w, &wish);
	if (ret == 0)
		ret = ckx_server_check(&server, w->look_up);
	if (ret == 0)
		ret = add_wishes(s, w, &wish, &server);
	if (ret == 0 && (server.address[0] || w->container) &&
	    !ckx_settings_find(s, "REMOTE_GPU_ADDRESS"))
		ret = add_setting(s, "REMOTE_GPU_ADDRESS", "%s%s%s", server.address,
				  server.others[0] ? "|" : "", server.others);
	if (ret == 0)
		ret = choose_nccl(s, w);
	if (ret >= 0)
		ret = add_library(s, w, ret > 0);
	if (ret == 0 && server.token[0] && !w->assembler) /* an own emulated GPU has no tokens */
		ret = add_setting(s, "CRICKET_TOKEN", "%s", server.token);
	if (ret == 0)
		ret = add_tls(s, w, &server.tls);
	if (ret == 0)
		ret = add_ptx(s, w);
	explicit_bzero(server.token, sizeof(server.token));
	return ret < 0 ? ret : choose_devices(s, w, server.devices);
}

void ckx_settings_free(struct ckx_settings *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->list[i].value);
	s->count = 0;
}
