/*
 * loader/options.c - the command line.
 */
#include "loader/options.h"
#include "loader/patch.h"

#ifndef CK_RELEASE
#define CK_RELEASE "0"
#endif

static const char usage[] =
	"usage: kernel-loader [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
	"Runs PROGRAM in one address space with lower halves, each with a libc of its own.\n"
	"  --lh NAME=FILE[@0xBASE]  a lower half: its program, or 'local' for NAME_lh.exe with "
	"the\n"
	"                           machine's own library; the address of its window\n"
	"  --map                    print the memory of all halves on stderr before PROGRAM "
	"starts\n"
	"  --gdb FILE               write gdb commands that load the symbols of all halves\n"
	"  --check FILE...          report whether the loader knows these files (ld.so or libc)\n"
	"  --help, --version\n";

static char *local_args[] = {"local", NULL};

static void exit_process(int status) __attribute__((noreturn));
static void exit_process(int status)
{
	for (;;)
		sys1(__NR_exit_group, status);
}

static bool parse_base(const char *text, uint64_t *base)
{
	int digits = 0;

	if (!ck_starts(text, "0x"))
		return false;
	*base = 0;
	for (text += 2; *text; text++, digits++) {
		int c = *text | 0x20, digit = c >= '0' && c <= '9'   ? c - '0'
					      : c >= 'a' && c <= 'f' ? c - 'a' + 10
								     : -1;

		if (digit < 0 || digits == 16)
			return false;
		*base = *base << 4 | (uint64_t)digit;
	}
	return digits > 0;
}

/* NAME=FILE[@0xBASE]; an @ that no base follows belongs to the file's name. */
static void add_half(const char *text)
{
	struct ck_half *h = &ck_halves[ck_info.halves];
	const char *equals = text, *at;

	while (*equals && *equals != '=')
		equals++;
	if (equals == text || !*equals || !equals[1])
		ck_die("--lh %s: not NAME=FILE or NAME=FILE@0xBASE", text);
	if (ck_info.halves == LHINFO_HALVES)
		ck_die("--lh %s: more than %u lower halves", text, LHINFO_HALVES - 1u);
	ck_copy_text(h->name, sizeof(h->name), text, (size_t)(equals - text));
	for (const char *c = h->name; *c; c++)
		if (*c == '/' || *c == ':')
			ck_die("--lh %s: a name has no / and no :", text);
	for (unsigned int i = 0; i < ck_info.halves; i++)
		if (!ck_strcmp(ck_halves[i].name, h->name))
			ck_die("--lh %s: there are two halves of that name", text);
	at = ck_strrchr(equals, '@');
	if (at && ck_starts(at, "@0x")) {
		if (!parse_base(at + 1, &h->base) || !h->base)
			ck_die("--lh %s: not an address: %s", text, at + 1);
	} else {
		at = equals + ck_strlen(equals);
	}
	ck_copy_text(h->path, sizeof(h->path), equals + 1, (size_t)(at - equals - 1));
	if (!ck_strcmp(h->path, "local")) {
		ck_format(h->path, sizeof(h->path), "%s/%s_lh.exe", ck_start.folder, h->name);
		h->args = local_args;
	}
	h->argv0 = h->path;
	ck_info.halves++;
}

/* "(Debian GLIBC 2.41-12)", from the version text in the file; empty without one. */
static void say_version(const char *file, size_t size, char *to, size_t room)
{
	static const char mark[] = " stable release version ";
	size_t n = sizeof(mark) - 1, from;

	*to = '\0';
	for (size_t at = 0; at + n < size; at++) {
		if (file[at] != ' ' || memcmp(file + at, mark, n))
			continue;
		for (from = at; from && at - from < room - 2 && file[from] != '('; from--)
			;
		if (file[from] == '(')
			ck_copy_text(to, room, file + from, at - from);
		return;
	}
}

/* "mmap 1581e 23010, munmap ...", by the place in the file. */
static void say_sites(const struct ck_sites *found, char *to, size_t room)
{
	size_t n = 0;

	*to = '\0';
	for (unsigned int c = 0; c < CK_CALLS; c++)
		for (unsigned int i = 0, first = 1; i < found->count; i++) {
			if (found->site[i].call != c)
				continue;
			if (first)
				n += ck_format(to + n, room - n, "%s%s", n ? ", " : "",
					       ck_sites_name(c));
			first = 0;
			n += ck_format(to + n, room - n, " %x", found->site[i].offset);
		}
}

/* One line, which a user can send to us as it is. True: the loader knows the file. */
static bool check_file(const char *path)
{
	const char *slash = ck_strrchr(path, '/'), *name = slash ? slash + 1 : path;
	int fd = (int)sys3(__NR_open, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0), ret;
	char version[128], sites[2048];
	struct ck_sites found;
	enum ck_file kind;
	size_t size = 0;
	long file = fd < 0 ? fd : ck_patch_open(fd, &size);

	if (is_error(file)) {
		ck_say("%s: %m", path, (int)-file);
		return false;
	}
	if (!ck_patch_kind(name, &kind))
		kind = ck_starts(name, "ld") ? CK_FILE_LDSO : CK_FILE_LIBC;
	ret = ck_sites_find(kind, (const uint8_t *)file, size, &found);
	say_version((const char *)file, size, version, sizeof(version));
	say_sites(&found, sites, sizeof(sites));
	if (!ret)
		ck_print(1, "%s: known%s%s: %s\n", path, *version ? " " : "", version, sites);
	else if (!found.call)
		ck_say("%s: not known: it is not a library for x86-64", path);
	else
		ck_say("%s: not known%s%s: no call of %s%s%s; found: %s", path, *version ? " " : "",
		       version, found.call, found.function ? " in its function " : "",
		       found.function ? found.function : "", *sites ? sites : "nothing");
	sys2(__NR_munmap, file, size);
	sys1(__NR_close, fd);
	return !ret;
}

static int check_files(char **files)
{
	bool good = *files;

	for (; *files; files++)
		good &= check_file(*files);
	return good ? 0 : 2;
}

/* The option's value, from "--name=value" or the next argument; NULL: another option. */
static const char *value_of(char ***argv, const char *name)
{
	const char *arg = **argv;
	size_t n = ck_strlen(name);

	if (!ck_starts(arg, name))
		return NULL;
	if (arg[n] == '=')
		return arg + n + 1;
	if (arg[n])
		return NULL;
	++*argv;
	if (!**argv)
		ck_die("%s: its value is missing", name);
	return **argv;
}

char **ck_options_parse(char **argv, struct ck_options *options)
{
	const char *value;

	for (argv++; *argv && **argv == '-'; argv++) {
		if (!ck_strcmp(*argv, "--"))
			return argv + 1;
		if (!ck_strcmp(*argv, "--help")) {
			ck_print(1, "%s", usage);
			exit_process(0);
		} else if (!ck_strcmp(*argv, "--version")) {
			ck_print(1, "kernel-loader %s\n", CK_RELEASE);
			exit_process(0);
		} else if (!ck_strcmp(*argv, "--check")) {
			exit_process(check_files(argv + 1));
		} else if (!ck_strcmp(*argv, "--map")) {
			options->map = true;
		} else if ((value = value_of(&argv, "--gdb"))) {
			options->gdb = value;
		} else if ((value = value_of(&argv, "--lh"))) {
			add_half(value);
		} else {
			ck_die("unknown option %s (--help lists them)", *argv);
		}
	}
	return argv;
}
