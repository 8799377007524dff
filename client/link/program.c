/*
 * client/link/program.c - see program.h.
 *
 * The options of each interpreter are known as far as the argument behind one of them could be
 * taken for a script.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/link/program.h"
#include "util/process/proc_file.h"
#include "util/text.h"
#include "util/util.h"

#define READ_MAX 65536 /* of a command line */
#define PARENTS 4      /* processes between a worker of multiprocessing and its script */

struct interpreter {
	const char *name; /* a version may follow */
	/* letters of options with a value, in the same argument or in the next one */
	const char *value;
	const char *rest;   /* of options whose value is the rest of the argument */
	const char *code;   /* of options with code instead of a script */
	const char *module; /* options with a module instead of a script */
	const char *script; /* options with the script */
	/* long options with a value in the next argument; each with a space behind it */
	const char *longer;
	unsigned int flags;
};

#define WORDS 1u   /* options are words, never single letters */
#define OPTIONS 2u /* only an option names a script */
#define OTHERS 4u  /* there are other long options with a value than those listed */
#define RUNNERS 8u /* a script or module may run another script (runners) */

static const struct interpreter interpreters[] = {
	{"python", "WXQ", "", "c", "-m ", "", "--check-hash-based-pycs ", RUNNERS},
	{"pypy", "WX", "", "c", "-m ", "", "--jit ", RUNNERS},
	{"perl", "I", "CDFMdimx", "eE", "", "", "", 0},
	{"ruby", "CEIXr", "FKTWix", "e", "", "", "--encoding ", 0},
	{"node", "Cr", "", "ep", "", "",
	 "--require --import --loader --experimental-loader --conditions --env-file --title ",
	 OTHERS},
	{"nodejs", "Cr", "", "ep", "", "", "--require --import --loader --conditions --env-file ",
	 OTHERS},
	{"php", "cdz", "", "BERr", "", "-f ", "", OTHERS},
	{"lua", "el", "", "", "", "", "", 0},
	{"luajit", "el", "bjO", "", "", "", "", 0},
	{"julia", "CHJLpt", "Og", "eE", "", "",
	 "--sysimage --load --threads --procs --machine-file ", OTHERS},
	{"R", "", "", "e", "", "-f --file ", "", OPTIONS},
	{"Rscript", "", "", "e", "", "", "", 0},
	{"java", "", "", "", "-m --module ", "-jar ",
	 "-cp -classpath --class-path -p --module-path --upgrade-module-path --add-modules "
	 "--source "
	 "--enable-native-access --add-reads --add-exports --add-opens --limit-modules "
	 "--patch-module ",
	 WORDS},
	{"dotnet", "", "", "", "", "", "--fx-version --runtimeconfig --depsfile ", 0},
	{"bash", "Oo", "", "c", "", "", "--rcfile --init-file ", 0},
	{"sh", "o", "", "c", "", "", "", 0},
	{"dash", "o", "", "c", "", "", "", 0},
	{"ksh", "o", "", "c", "", "", "", 0},
	{"zsh", "o", "", "c", "", "", "", 0},
	{"tclsh", "", "", "", "", "", "-encoding ", 0},
};

/* Modules and scripts of Python that run another script in their process. */
static const struct interpreter runners[] = {
	{"cProfile", "os", "", "", "-m ", "", "--outfile --sort ", 0},
	{"profile", "os", "", "", "-m ", "", "--outfile --sort ", 0},
	{"pdb", "c", "", "", "-m ", "", "--command ", 0},
	{"trace", "fC", "", "", "", "", "--file --coverdir --ignore-module --ignore-dir ", 0},
	{"debugpy", "", "", "c", "-m ", "", "--listen --connect --log-to --pid ", 0},
	{"kernprof", "ospu", "", "", "-m ", "", "--outfile --setup --prof-mod --unit ", 0},
	{"IPython", "", "", "c", "-m ", "", "", 0},
	{"ipython", "", "", "c", "-m ", "", "", 0},
};

/* The arguments of a process, in turn. */
struct reading {
	const struct interpreter *by, *first;
	const char *at, *end;
	bool doubt; /* the next argument may be an option's value */
};

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The next argument; NULL: there is none. */
static const char *next_argument(struct reading *r)
{
	const char *argument = r->at;

	if (!argument || argument >= r->end)
		return NULL;
	r->at += strlen(argument) + 1;
	return argument;
}

/* "python3.12", "python3.13t", "perl5.36.0", "node". */
static bool is_named(const char *base, const char *name)
{
	size_t length = strlen(name), version;

	if (strncmp(base, name, length) != 0)
		return false;
	version = strspn(base + length, "0123456789.-");
	length += version;
	length += version ? strspn(base + length, "dmtuw") : 0;
	return base[length] == '\0';
}

static const struct interpreter *find_named(const struct interpreter *list, size_t count,
					    const char *base)
{
	for (size_t i = 0; i < count; i++) {
		if (is_named(base, list[i].name))
			return &list[i];
	}
	return NULL;
}

/* Does @base run another script? Then its options follow. False: no, or not by this interpreter. */
static bool take_runner(struct reading *r, const char *base)
{
	const struct interpreter *runner =
		r->by->flags & RUNNERS ? find_named(runners, CK_ARRAY_SIZE(runners), base) : NULL;

	if (runner)
		r->by = runner;
	return runner != NULL;
}

/* Is @option, without its "=VALUE", in @list? */
static bool is_listed(const char *option, const char *list)
{
	size_t length = strcspn(option, "=");

	for (; *list; list += strcspn(list, " ") + 1) {
		if (strcspn(list, " ") == length && memcmp(list, option, length) == 0)
			return true;
	}
	return false;
}

/* The value of an option: behind "=", or the next argument. */
static const char *value_of(struct reading *r, const char *option)
{
	const char *equals = strchr(option, '=');

	return equals ? equals + 1 : next_argument(r);
}

/* Where the last part of @path begins; *@length: that of the part, 0: there is none. */
static const char *last_part(const char *path, size_t *length)
{
	const char *end = path + strlen(path), *part;

	while (end > path && end[-1] == '/')
		end--;
	for (part = end; part > path && part[-1] != '/'; part--)
		;
	*length = (size_t)(end - part);
	return part;
}

/* Put the last part of @path into @out, behind @before. */
static int put_name(const char *before, const char *path, char out[CKC_PROGRAM])
{
	char name[2 * CKC_PROGRAM];
	size_t length = 0;
	const char *part = path ? last_part(path, &length) : NULL;

	if (length == 0)
		return 0;
	snprintf(name, sizeof(name), "%s%.*s", before, (int)length, part);
	ck_text_copy(out, CKC_PROGRAM, name);
	return 1;
}

/* Put the name of a script into @out. A folder or its __main__.py is called by the folder. */
static int put_script(const char *path, char out[CKC_PROGRAM])
{
	char *folder = NULL, *whole = NULL;
	size_t length;
	const char *part = last_part(path, &length);
	int ret = 0;

	if (strcmp(part, "__main__.py") == 0)
		folder = strndup(path, (size_t)(part - path));
	else if (length > 0 && strspn(part, ".") >= length)
		folder = strdup(path);
	if (folder)
		whole = realpath(*folder ? folder : ".", NULL);
	if (whole)
		ret = put_name("", whole, out);
	free(whole);
	free(folder);
	return ret ? ret : put_name("", path, out);
}

static int put_module(const struct reading *r, const char *module, char out[CKC_PROGRAM])
{
	char before[32];

	if (!module)
		return 0;
	snprintf(before, sizeof(before), "%s -m ", r->first->name);
	return put_name(before, base_of(module), out);
}

/* Kinds of arguments. */
enum kind { SCRIPT, OPTION, CODE, DONE };

/* The program is @module, unless that runs another one. */
static enum kind read_module(struct reading *r, const char *module, char out[CKC_PROGRAM])
{
	put_module(r, module, out);
	return module && take_runner(r, module) ? OPTION : DONE;
}

/* An argument that is no option. */
static enum kind read_script(struct reading *r, const char *argument, char out[CKC_PROGRAM])
{
	if (r->by->flags & OPTIONS)
		return CODE;
	if (r->doubt && access(argument, F_OK) != 0)
		return OPTION;
	if (!take_runner(r, base_of(argument)))
		return SCRIPT;
	put_script(argument, out);
	return OPTION;
}

/* Look at the letters of @option, as in "-uc". @value: it has one, which names the program. */
static enum kind read_letters(struct reading *r, const char *option, const char **module)
{
	const struct interpreter *by = r->by;
	const char *letter = option;

	while (*++letter) {
		if (by->module[0] == '-' && *letter == by->module[1] && by->module[2] == ' ') {
			*module = letter[1] ? letter + 1 : next_argument(r);
			return DONE;
		}
		if (strchr(by->code, *letter))
			return CODE;
		if (strchr(by->rest, *letter))
			return OPTION;
		if (strchr(by->value, *letter)) {
			if (!letter[1])
				next_argument(r);
			return OPTION;
		}
	}
	return OPTION;
}

/* Look at one argument; if it names the program, @out is its name. */
static enum kind read_argument(struct reading *r, const char *argument, char out[CKC_PROGRAM])
{
	const char *module = NULL;
	enum kind kind;

	if (argument[0] != '-' && argument[0] != '+')
		return read_script(r, argument, out);
	if (strcmp(argument, "-") == 0)
		return CODE;
	if (is_listed(argument, r->by->script)) {
		put_name("", value_of(r, argument), out);
		return DONE;
	}
	if (is_listed(argument, r->by->module))
		return read_module(r, value_of(r, argument), out);
	if (is_listed(argument, r->by->longer)) {
		value_of(r, argument);
		return OPTION;
	}
	if (strcmp(argument, "--eval") == 0 || strcmp(argument, "--print") == 0)
		return CODE;
	if (argument[1] == '-')
		r->doubt |= (r->by->flags & OTHERS) && !strchr(argument, '=');
	if (argument[1] == '-' || r->by->flags & WORDS)
		return OPTION;
	kind = read_letters(r, argument, &module);
	return kind == DONE ? read_module(r, module, out) : kind;
}

/* Is the process a notebook's kernel? Its children inherit the variable. */
static bool is_kernel(const struct reading *arguments)
{
	struct reading r = *arguments;
	const char *argument;

	while ((argument = next_argument(&r)) != NULL) {
		const char *base = base_of(argument);

		if (strncmp(base, "kernel-", 7) == 0 && strstr(base, ".json"))
			return true;
	}
	return false;
}

int ckc_program_of(const char *arguments, size_t size, const char *notebook, char out[CKC_PROGRAM])
{
	struct reading r = {.at = arguments, .end = arguments + size};
	const char *argument = next_argument(&r);
	enum kind kind = OPTION;

	out[0] = '\0';
	if (argument)
		r.by = find_named(interpreters, CK_ARRAY_SIZE(interpreters),
				  base_of(argument[0] == '-' ? argument + 1 : argument));
	r.first = r.by;
	if (!r.by)
		return 0;
	if (notebook && *notebook && is_kernel(&r))
		return put_name("", notebook, out);
	while (kind == OPTION && (argument = next_argument(&r)) != NULL) {
		if (strcmp(argument, "--") == 0) {
			argument = next_argument(&r);
			kind = SCRIPT;
			break;
		}
		kind = read_argument(&r, argument, out);
	}
	if (kind == SCRIPT && argument)
		put_script(argument, out);
	return out[0] != '\0';
}

/* The command line of process @pid, or of this one: 0, to be freed. The last argument may be cut.
 * NULL: unknown. */
static char *read_arguments(pid_t pid, size_t *size)
{
	char path[64], *bytes = malloc(READ_MAX + 1);
	struct ck_proc_file f;
	ssize_t n = -1;

	snprintf(path, sizeof(path), pid ? "/proc/%d/cmdline" : "/proc/self/cmdline", (int)pid);
	if (bytes && ck_proc_file_open(&f, path) == 0) {
		n = ck_proc_file_read(&f, bytes, READ_MAX, 0);
		ck_proc_file_close(&f);
	}
	*size = n > 0 ? (size_t)n : 0;
	if (*size == 0) {
		free(bytes);
		return NULL;
	}
	bytes[*size] = '\0';
	return bytes;
}

/* Python's multiprocessing starts processes with code of its own: their script is an ancestor's. */
static bool is_multiprocessing(const char *arguments, size_t size)
{
	return memmem(arguments, size, "\0from multiprocessing.", 22) != NULL;
}

void ckc_program_name(char out[CKC_PROGRAM])
{
	const char *notebook = getenv("JPY_SESSION_NAME");
	struct ck_proc_stat stat;
	bool more = true;
	pid_t pid = 0;
	size_t size;

	out[0] = '\0';
	for (int i = 0; more && i < PARENTS; i++) {
		char *arguments = read_arguments(pid, &size);

		more = arguments && !ckc_program_of(arguments, size, notebook, out) &&
		       is_multiprocessing(arguments, size);
		free(arguments);
		more = more && ck_proc_stat(pid, &stat) == 0;
		pid = more ? stat.parent : 0;
		more &= pid > 1;
	}
	if (!out[0])
		ck_text_copy(out, CKC_PROGRAM, program_invocation_short_name);
}
