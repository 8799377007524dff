/*
 * command/run/jupyter.c - `cricket jupyter`: a kernel for Jupyter, a file with the command line of
 * a Python that `cricket run` starts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/config/install_paths.h"
#include "command/config/server.h"
#include "command/run/settings.h"
#include "util/env.h"
#include "util/util.h"
#include "util/process/home.h"

struct kernel {
	const char *name, *prefix;
	char python[CKX_PATH];
	char **run; /* options of `cricket run` */
	int run_count;
};

/* Take the own options; those of `run` stay in argv. */
static int parse_options(int argc, char **argv, struct kernel *k, const char **python)
{
	const struct ckx_own own[] = {
		{"name", &k->name}, {"prefix", &k->prefix}, {"python", python}};
	int left = ckx_settings_take(argc, argv, own, CK_ARRAY_SIZE(own));

	k->run = argv + 1;
	k->run_count = left - 1;
	return left;
}

static bool is_name(const char *name)
{
	return *name &&
	       !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "0123456789._-")] &&
	       strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* The program @word, with its path: a kernel starts with the PATH of Jupyter. -ENOENT, printed. */
static int find_program(const char *word, char out[CKX_PATH])
{
	bool found = false;

	if (strchr(word, '/')) {
		char *whole = word[0] == '/' ? strdup(word) : realpath(word, NULL);

		found = whole && access(whole, X_OK) == 0 &&
			snprintf(out, CKX_PATH, "%s", whole) < CKX_PATH;
		free(whole);
	} else {
		found = ck_env_find_program(word, out, CKX_PATH);
	}
	if (!found)
		ckx_error("there is no program %s: name a Python with --python", word);
	return found ? 0 : -ENOENT;
}

/* The kernel's folder: where Jupyter looks for the user's, or for those of an installation. -errno,
 * printed. */
static int find_folder(const struct kernel *k, char out[CKX_PATH])
{
	const char *own = getenv("JUPYTER_DATA_DIR"), *data = getenv("XDG_DATA_HOME");
	const char *home = ck_home();
	int n;

	if (k->prefix)
		n = snprintf(out, CKX_PATH, "%s/share/jupyter/kernels/", k->prefix);
	else if (own && *own)
		n = snprintf(out, CKX_PATH, "%s/kernels/", own);
	else if (data && *data)
		n = snprintf(out, CKX_PATH, "%s/jupyter/kernels/", data);
	else if (home)
		n = snprintf(out, CKX_PATH, "%s/.local/share/jupyter/kernels/", home);
	else
		return ckx_error(CK_HOME_NONE), -ENOENT;
	if (n + strlen(k->name) + sizeof("/kernel.json") >= CKX_PATH) {
		ckx_error("the path is too long: %s", out);
		return -ENAMETOOLONG;
	}
	for (const char *c = k->name; *c; c++) /* Jupyter's names have no upper case */
		out[n++] = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
	out[n] = '\0';
	return 0;
}

static json_t *describe_kernel(const struct kernel *k, const char *server)
{
	static const char *const rest[] = {"-m", "ipykernel_launcher", "-f", "{connection_file}"};
	char own[CKX_PATH];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
	json_t *words = json_pack("[s, s]", n < 0 ? "cricket" : (own[n] = '\0', own), "run");

	for (int i = 0; i < k->run_count; i++)
		json_array_append_new(words, json_string(k->run[i]));
	json_array_append_new(words, json_string("--"));
	json_array_append_new(words, json_string(k->python));
	for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
		json_array_append_new(words, json_string(rest[i]));
	return json_pack("{s:o, s:s, s:o}", "display_name",
			 json_sprintf("Python 3 on %s", server[0] ? server : "Cricket's GPUs"),
			 "language", "python", "argv", words);
}

static int write_kernel(const char *folder, const json_t *kernel)
{
	char path[CKX_PATH + 16];
	FILE *out;
	int ret = ckx_install_path_make(folder, 0755);

	snprintf(path, sizeof(path), "%s/kernel.json", folder);
	out = ret == 0 ? fopen(path, "we") : NULL;
	if (ret == 0 && !out)
		ret = -errno;
	if (out && (json_dumpf(kernel, out, JSON_INDENT(1)) < 0 || fputc('\n', out) == EOF))
		ret = -EIO;
	if (out && fclose(out) != 0)
		ret = -errno;
	if (ret < 0)
		ckx_error("%s: %s", path, strerror(-ret));
	return ret;
}

/* A kernel without it is in Jupyter's list and does not start. */
static void warn_if_no_ipykernel(const char *python)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		execl(python, python, "-c",
		      "import importlib.util, sys; sys.exit(not "
		      "importlib.util.find_spec('ipykernel'))",
		      (char *)NULL);
		_exit(0);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	    WEXITSTATUS(status) == 1)
		ckx_error("the kernel needs ipykernel: %s -m pip install ipykernel", python);
}

int ckx_jupyter(const struct ckx_command *self, int argc, char **argv)
{
	struct kernel k = {.name = "cricket"};
	const char *python = "python3";
	char folder[CKX_PATH];
	struct ckx_wishes wishes;
	json_t *kernel;
	int left, ret;

	if (argc > 1 && strcmp(argv[1], "install") == 0) { /* as jupyter's own commands */
		argv[1] = argv[0];
		argv++;
		argc--;
	}
	left = parse_options(argc, argv, &k, &python);
	if (left < 0)
		return CKX_USAGE;
	if (ckx_settings_parse(left, argv, &wishes) < 0 || optind < left || wishes.format ||
	    ckx_settings_of_run(&wishes))
		return ckx_usage(self);
	if (ckx_settings_check(&wishes) < 0)
		return CKX_USAGE;
	if (!is_name(k.name)) {
		ckx_error("--name: letters, digits and ._- only: %s", k.name);
		return CKX_USAGE;
	}
	ret = find_program(python, k.python);
	if (ret == 0)
		ret = find_folder(&k, folder);
	if (ret < 0)
		return CKX_FAILED;
	kernel = describe_kernel(&k, wishes.server ? wishes.server : "");
	ret = write_kernel(folder, kernel);
	json_decref(kernel);
	if (ret < 0)
		return CKX_FAILED;
	warn_if_no_ipykernel(k.python);
	puts(folder);
	return CKX_OK;
}
