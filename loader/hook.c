/*
 * loader/hook.c - replacements of a half's system calls.
 */
#include "loader/half.h"
#include "loader/window.h"

long ck_hook(long number, unsigned int half, const long arg[6]);

/* Memory that is refused while a half is loaded would only show as a puzzle of its ld.so. */
static long map_memory(unsigned int half, const long arg[6])
{
	int prot = (int)arg[2], flags = (int)arg[3], fd = (int)arg[4];
	long at = ck_window_mmap(half, (uint64_t)arg[0], (size_t)arg[1], prot, flags, fd,
				 (uint64_t)arg[5]);

	if (at == -ENOMEM && ck_info.half[half].state == LH_LOADING)
		ck_die("%s: no room for %u KiB while it is loaded (RLIMIT_AS, ulimit -v, too "
		       "small?)",
		       ck_halves[half].name, (unsigned int)((size_t)arg[1] >> 10));
	if (!is_error(at) && prot & PROT_EXEC && fd >= 0 && !(flags & MAP_ANONYMOUS)) {
		int ret = ck_half_mapped(half, (uint64_t)at, (size_t)arg[1], fd, (uint64_t)arg[5]);

		if (ret) {
			ck_window_munmap((uint64_t)at, (size_t)arg[1]);
			return ret;
		}
	}
	return at;
}

/* arg: as the system call has them. Returns its result. */
long ck_hook(long number, unsigned int half, const long arg[6])
{
	switch (number) {
	case __NR_mmap:
		return map_memory(half, arg);
	case __NR_munmap:
		return ck_window_munmap((uint64_t)arg[0], (size_t)arg[1]);
	case __NR_mremap:
		return ck_window_mremap(half, (uint64_t)arg[0], (size_t)arg[1], (size_t)arg[2],
					(int)arg[3], (uint64_t)arg[4]);
	case __NR_brk:
		return (long)ck_window_brk(half, (uint64_t)arg[0]);
	case __NR_rt_sigaction:
		return ck_signal_action(half, (int)arg[0], (const void *)arg[1], (void *)arg[2],
					(size_t)arg[3]);
	default:
		return sys6(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
	}
}
