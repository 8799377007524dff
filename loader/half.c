/*
 * loader/half.c - starting a half, getting control back from it, and ending it.
 *
 * A half's own ld.so is mapped into its window and started as a program is: "ld.so [options]
 * program arguments" on a stack of its own. A lower half's main says ready(), which leaves its
 * stack for ours; to end it we go back there, its main returns, exit() runs, and _exit comes to us
 * again.
 */
#include <linux/resource.h>

#include "loader/half.h"
#include "loader/patch.h"
#include "loader/stack.h"
#include "loader/window.h"

#define STACK_MAX (1ul << 30)
#define STACK_UNLIMITED (64ul << 20)
#define STRINGS 65536
#define STRING_MAX (32 * PAGE) /* of the kernel, for one argument or variable */

struct ck_half ck_halves[LHINFO_HALVES];
struct lhinfo ck_info;
struct ck_start ck_start;

static uint64_t loader_rsp;   /* of the context that waits for ready() */
static uint64_t finisher_rsp; /* of the context that waits for a lower half's exit */
static int finishing = -1;
static char *strings[STRINGS]; /* argv and envp of one half */

void ck_switch(uint64_t *save, uint64_t rsp);
void ck_enter_program(uint64_t *save, uint64_t rsp, uint64_t entry);

/* --- the parts of a new half; a failure ends the loader */

static uint64_t reserve_memory(unsigned int half, size_t size, int prot)
{
	long at = ck_window_mmap(half, 0, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
				 -1, 0);

	if (is_error(at))
		ck_die("%s: no room at 0x%x: %m%s", ck_halves[half].name, ck_halves[half].base,
		       (int)-at, at == -ENOMEM ? " (RLIMIT_AS, ulimit -v, too small?)" : "");
	return (uint64_t)at;
}

static void refuse_libc(unsigned int half, const char *file, int error,
			const struct ck_sites *found)
{
	if (error == -ENOEXEC)
		ck_die("%s: %s: a libc that this loader does not know: no call of %s was "
		       "found%s%s; "
		       "'kernel-loader --check' shows details",
		       ck_halves[half].name, file, found->call ? found->call : "anything",
		       found->function ? " in its function " : "",
		       found->function ? found->function : "");
	ck_die("%s: %s: cannot intercept its system calls: %m", ck_halves[half].name, file, -error);
}

/* ld.so of a glibc before 2.33 has no --argv0: then argv[0] is the program's path. */
static bool knows_argv0(int fd)
{
	static const char option[] = "--argv0";
	size_t size = 0;
	long file = ck_patch_open(fd, &size);
	bool found = false;

	for (size_t i = 0; !found && !is_error(file) && i + sizeof(option) <= size; i++)
		found = !memcmp((const char *)file + i, option, sizeof(option));
	if (!is_error(file))
		sys2(__NR_munmap, file, size);
	return found;
}

static void map_linker(unsigned int half)
{
	struct ck_half *h = &ck_halves[half];
	struct ck_sites found;
	int ret, fd;

	h->linker_base =
		reserve_memory(half, h->linker.hi - h->linker.lo, PROT_NONE) - h->linker.lo;
	ret = ck_elf_map(h->program.interpreter, &h->linker, h->linker_base);
	fd = (int)sys3(__NR_open, h->program.interpreter, O_RDONLY | O_CLOEXEC, 0);
	if (ret || fd < 0)
		ck_die("%s: %s: %m", h->name, h->program.interpreter, ret ? -ret : -fd);
	for (int i = 0; i < h->linker.head.e_phnum; i++) {
		const Elf64_Phdr *s = &h->linker.segments[i];

		if (s->p_type == PT_LOAD && s->p_flags & PF_X)
			ret = ck_patch_mapped(half, CK_FILE_LDSO, fd, h->linker_base + s->p_vaddr,
					      s->p_filesz, s->p_offset, &found);
		if (ret)
			refuse_libc(half, h->program.interpreter, ret, &found);
	}
	h->linker_argv0 = knows_argv0(fd);
	sys1(__NR_close, fd);
}

/* As large as the process's own may be; its lowest page is shut. */
static uint64_t make_stack(unsigned int half)
{
	struct rlimit64 {
		uint64_t now, max;
	} limit = {STACK_UNLIMITED, 0};
	uint64_t size, at;

	sys4(__NR_prlimit64, 0, RLIMIT_STACK, NULL, &limit);
	size = limit.now > STACK_MAX ? STACK_UNLIMITED : page_up(limit.now);
	at = reserve_memory(half, size + PAGE, PROT_READ | PROT_WRITE);
	sys3(__NR_mprotect, at, PAGE, PROT_NONE);
	return at + PAGE + size;
}

/*
 * A lower half starts without the variables that were meant for the application, and leaves the
 * registration of restartable sequences to the application: the kernel writes there as long as the
 * thread lives.
 */
static void make_env(unsigned int half, struct ck_list *env)
{
	static char tunables[STRING_MAX + 64];
	const char *given = ck_getenv(ck_start.envp, "GLIBC_TUNABLES");

	ck_list_add(env, ck_start.lhinfo);
	for (char **e = ck_start.envp; *e; e++) {
		if (ck_starts(*e, LHINFO_ENV "="))
			continue;
		if (half && (ck_starts(*e, "LD_PRELOAD=") || ck_starts(*e, "LD_AUDIT=") ||
			     ck_starts(*e, "GLIBC_TUNABLES=")))
			continue;
		ck_list_add(env, *e);
	}
	if (!half)
		return;
	ck_format(tunables, sizeof(tunables), "GLIBC_TUNABLES=%s%sglibc.pthread.rseq=0",
		  given ? given : "", given && *given ? ":" : "");
	ck_list_add(env, tunables);
}

/* stubs/NAME beside the half's program: libraries for the application in place of the real ones. */
static void stub_folder(unsigned int half, char *to, size_t size)
{
	char folder[4096], *slash;

	memcpy(folder, ck_halves[half].path, sizeof(folder));
	slash = ck_strrchr(folder, '/');
	if (slash)
		*slash = '\0';
	ck_format(to, size, "%s/stubs/%s", slash ? folder : ".", ck_halves[half].name);
}

/* These folders of the halves that are there, in front of the user's own. */
static const char *library_path(void)
{
	static char path[STRING_MAX + LHINFO_HALVES * 4160], folder[4096 + 32];
	const char *given = ck_getenv(ck_start.envp, "LD_LIBRARY_PATH");
	size_t n = 0;

	for (unsigned int i = 1; i < ck_info.halves; i++) {
		stub_folder(i, folder, sizeof(folder));
		n += ck_format(path + n, sizeof(path) - n, "%s%s", n ? ":" : "", folder);
	}
	if (given && *given)
		ck_format(path + n, sizeof(path) - n, "%s%s", n ? ":" : "", given);
	return path;
}

/* libupper.so, and the libpreload.so of each half whose stubs have one. */
static const char *list_preloads(void)
{
	static char list[LHINFO_HALVES * 4224], file[4096 + 64];
	size_t n = ck_format(list, sizeof(list), "%s/libupper.so", ck_start.folder);

	for (unsigned int i = 1; i < ck_info.halves; i++) {
		stub_folder(i, file, sizeof(file));
		ck_format(file + ck_strlen(file), sizeof(file) - ck_strlen(file), "/libpreload.so");
		if (!sys2(__NR_access, file, 4 /* R_OK */))
			n += ck_format(list + n, sizeof(list) - n, ":%s", file);
	}
	return list;
}

static void make_args(unsigned int half, struct ck_list *args)
{
	const struct ck_half *h = &ck_halves[half];
	const char *path;

	ck_list_add(args, h->program.interpreter);
	if (h->linker_argv0) {
		ck_list_add(args, "--argv0");
		ck_list_add(args, h->argv0);
	}
	if (!half) {
		ck_list_add(args, "--preload");
		ck_list_add(args, list_preloads());
		path = library_path();
		if (*path) {
			ck_list_add(args, "--library-path");
			ck_list_add(args, path);
		}
	}
	ck_list_add(args, h->path);
	for (char **a = h->args; a && *a; a++)
		ck_list_add(args, *a);
}

void ck_half_run(unsigned int half)
{
	struct ck_half *h = &ck_halves[half];
	struct ck_list args = {strings, 0, STRINGS / 2},
		       env = {strings + STRINGS / 2, 0, STRINGS / 2};
	struct ck_aux aux = {.phnum = h->linker.head.e_phnum, .name = h->program.interpreter};
	uint64_t fs = fs_get(), top;

	ck_info.half[half].state = LH_LOADING;
	ck_info.half[half].generation++;
	ck_info.generation++;
	ck_patch_begin(half, reserve_memory(half, CK_PATCH_SIZE, PROT_NONE));
	map_linker(half);
	top = make_stack(half);
	make_args(half, &args);
	make_env(half, &env);
	aux.phdr = h->linker_base + h->linker.lo + h->linker.head.e_phoff;
	aux.entry = h->linker_base + h->linker.head.e_entry;
	ck_enter_program(&loader_rsp, ck_stack_build(top, &args, &env, ck_start.auxv, &aux),
			 aux.entry);
	fs_set(fs);
}

/* --- libc comes */

/* The name after the last / of @path, in which the file's path is put; NULL: it has none. */
static const char *name_of_file(int fd, char *path, size_t size)
{
	char link[32], *slash;
	long n;

	ck_format(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = sys3(__NR_readlink, link, path, size - 1);
	if (n <= 0)
		return NULL;
	path[n] = '\0';
	slash = ck_strrchr(path, '/');
	return slash ? slash + 1 : path;
}

int ck_half_mapped(unsigned int half, uint64_t at, size_t size, int fd, uint64_t offset)
{
	struct ck_sites found;
	char path[4096];
	const char *name = name_of_file(fd, path, sizeof(path));
	enum ck_file kind;
	int ret;

	if (!name || !ck_patch_kind(name, &kind))
		return 0;
	ret = ck_patch_mapped(half, kind, fd, at, size, offset, &found);
	if (ret && ck_info.half[half].state == LH_LOADING)
		refuse_libc(half, name, ret, &found);
	ck_halves[half].known_libc |= kind == CK_FILE_LIBC;
	return ret;
}

/* --- ready, and the end */

/* After exit() they end as programs do; after _exit() alone, those that need it learn of it. */
static void end_halves(int status)
{
	bool exiting = ck_info.exiting;

	ck_info.exiting = 0;
	for (unsigned int i = ck_info.halves - 1; i; i--) {
		const struct lh_half *h = &ck_info.half[i];

		if (exiting)
			ck_half_finish(i);
		else if (h->state == LH_READY && h->leave)
			ck_thread_call(i, h->leave, (void *)(int64_t)status);
	}
}

static void half_exit(unsigned int half, int status)
{
	static uint64_t never;

	if (half && finishing == (int)half)
		ck_switch(&never, finisher_rsp);
	if (!half && (int32_t)sys1(__NR_getpid, 0) == ck_info.pid)
		end_halves(status);
	for (;;)
		sys1(__NR_exit_group, status);
}

void ck_half_ready(struct lh_half *h)
{
	unsigned int half = (unsigned int)(h - ck_info.half);
	uint64_t at = (uint64_t)h->exit_entry();
	char stray[CK_STRAY_SIZE];
	int ret;

	if (ck_map_stray(stray))
		ck_die("%s: %s is not in its window: a libc that makes calls in a way that "
		       "this loader does "
		       "not know",
		       ck_halves[half].name, stray);
	if (!ck_halves[half].known_libc)
		ck_die("%s: its libc.so.6 was not found", ck_halves[half].name);
	ret = ck_patch_exit(half, at, half_exit);
	if (ret)
		ck_die("%s: cannot intercept _exit: %m", ck_halves[half].name, -ret);
	h->fs = fs_get();
	ck_thread_loaded(half, h->fs);
	__atomic_store_n(&h->state, LH_READY, __ATOMIC_RELEASE);
	if (half)
		ck_switch(&ck_halves[half].rsp, loader_rsp);
}

void ck_half_finish(unsigned int half)
{
	struct lh_thread *t = ck_thread_enter(half);
	uint64_t fs = fs_get();

	if (!t)
		return;
	ck_info.half[half].state = LH_FINISHED;
	finishing = (int)half;
	fs_set(t->fs[half]);
	ck_switch(&finisher_rsp, ck_halves[half].rsp);
	fs_set(fs);
	finishing = -1;
}
