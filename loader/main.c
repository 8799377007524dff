/*
 * loader/main.c - kernel-loader: the order of the start. Options, checks, windows; then each lower
 * half until it is ready; then the application, for good.
 */
#include <linux/auxvec.h>

#include "loader/half.h"
#include "loader/options.h"
#include "loader/place.h"

#define HWCAP2_FSGSBASE 2

static struct ck_options options;

void ck_main(uint64_t *stack) __attribute__((noreturn));

static void find_folder(void)
{
	long n =
		sys3(__NR_readlink, "/proc/self/exe", ck_start.folder, sizeof(ck_start.folder) - 1);
	char *slash;

	if (n <= 0)
		ck_die("/proc/self/exe: %m: /proc must be mounted", (int)-n);
	ck_start.folder[n] = '\0';
	slash = ck_strrchr(ck_start.folder, '/');
	if (slash)
		*slash = '\0';
}

static void upper_ready(struct lh_half *half)
{
	ck_half_ready(half);
	if (half != ck_info.half)
		return;
	if (options.map)
		ck_map_print(2);
	if (options.gdb)
		ck_map_gdb(options.gdb);
}

static void fill_info(void)
{
	ck_info.magic = LHINFO_MAGIC;
	ck_info.version = LHINFO_VERSION;
	ck_info.size = sizeof(ck_info);
	ck_info.pid = (int32_t)sys1(__NR_getpid, 0);
	ck_info.fsgsbase = ck_fsgsbase;
	ck_info.ready = upper_ready;
	ck_info.enter = ck_thread_enter;
	ck_info.leave = ck_thread_leave;
	ck_info.callback = ck_callback_get;
	ck_info.callback_of = ck_callback_of;
	ck_info.serve = ck_callback_serve;
	ck_info.call = ck_thread_call;
	ck_info.handler = ck_signal_handler;
	ck_info.drop = ck_half_drop;
	ck_info.load = ck_half_load;
}

static void put_address(void)
{
	uint64_t at = (uint64_t)&ck_info;
	size_t n = ck_format(ck_start.lhinfo, sizeof(ck_start.lhinfo),
			     LHINFO_ENV "=0x0000000000000000");

	for (; at; at >>= 4)
		ck_start.lhinfo[--n] = "0123456789abcdef"[at & 15];
}

/* The kernel must enable FSGSBASE: bit 1 of AT_HWCAP2, independent of the CPU's own flag. */
static void read_auxv(void)
{
	const char *off = ck_getenv(ck_start.envp, "CRICKET_LOADER_FSGSBASE");

	for (uint64_t *a = ck_start.auxv; a[0] != AT_NULL; a += 2)
		if (a[0] == AT_HWCAP2)
			ck_fsgsbase = a[1] & HWCAP2_FSGSBASE;
	if (off && !ck_strcmp(off, "0"))
		ck_fsgsbase = false;
}

void ck_main(uint64_t *stack)
{
	char **argv = (char **)(stack + 1), **args;

	ck_start.envp = argv + stack[0] + 1;
	ck_start.auxv = (uint64_t *)ck_start.envp;
	while (*ck_start.auxv++)
		;
	find_folder();
	read_auxv();
	ck_info.halves = 1;
	ck_copy_text(ck_halves[0].name, sizeof(ck_halves[0].name), "upper", 5);
	args = ck_options_parse(argv, &options);
	if (!*args)
		ck_die("no program is named (see --help)");
	ck_halves[0].argv0 = *args;
	ck_halves[0].args = args + 1;
	ck_place_find(*args, ck_halves[0].path, sizeof(ck_halves[0].path));
	ck_place_all();
	fill_info();
	put_address();
	ck_vdso_pin(ck_start.auxv);
	ck_thread_first();
	for (unsigned int i = 1; i <= ck_info.halves; i++)
		ck_half_run(i % ck_info.halves);
	ck_die("the application returned");
}
