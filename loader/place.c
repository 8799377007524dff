/*
 * loader/place.c - facts of the halves before any is started: whether their programs can be loaded
 * at all, and where each is to lie.
 */
#include <linux/elf.h>

#include "loader/place.h"
#include "loader/window.h"

#define WINDOW_MIN (4ull << 30)
#define LOAD_MIN (64ull << 20)

void ck_place_find(const char *name, char *path, size_t size)
{
	const char *dirs = ck_getenv(ck_start.envp, "PATH");

	if (ck_strrchr(name, '/') || !dirs) {
		ck_copy_text(path, size, name, ck_strlen(name));
		return;
	}
	while (*dirs) {
		char dir[2048];
		size_t n = 0;

		for (; *dirs && *dirs != ':'; dirs++)
			if (n + 1 < sizeof(dir))
				dir[n++] = *dirs;
		dir[n] = '\0';
		dirs += *dirs == ':';
		ck_format(path, size, "%s/%s", n ? dir : ".", name);
		if (!sys2(__NR_access, path, 1 /* X_OK */))
			return;
	}
	ck_die("%s: not found in PATH", name);
}

static void read_program(struct ck_half *h)
{
	const char *why;
	int ret = ck_elf_read(h->path, &h->program, &why);

	if (ret && why)
		ck_die("%s: %s %s", h->name, h->path, why);
	if (ret)
		ck_die("%s: %s: %m", h->name, h->path, -ret);
	if (!h->program.interpreter[0])
		ck_die("%s: %s is statically linked: only programs with an ld.so can be loaded",
		       h->name, h->path);
	ret = ck_elf_read(h->program.interpreter, &h->linker, &why);
	if (ret && why)
		ck_die("%s: %s %s", h->name, h->program.interpreter, why);
	if (ret)
		ck_die("%s: %s: %m", h->name, h->program.interpreter, -ret);
}

/* A base that was given ends where the next higher one begins, at most a window's size away. */
static void place_given(void)
{
	for (unsigned int i = 0; i < ck_info.halves; i++) {
		struct ck_half *h = &ck_halves[i];

		if (!h->base)
			continue;
		if (h->base % PAGE || h->base >= CK_ADDRESS_END - WINDOW_MIN)
			ck_die("%s: a half cannot be at 0x%x", h->name, h->base);
		h->end = h->base + CK_WINDOW_SIZE;
		if (h->end > CK_ADDRESS_END)
			h->end = CK_ADDRESS_END;
		for (unsigned int j = 0; j < ck_info.halves; j++)
			if (ck_halves[j].base > h->base && ck_halves[j].base < h->end)
				h->end = ck_halves[j].base;
		for (unsigned int j = 0; j < i; j++)
			if (ck_halves[j].base == h->base)
				h->end = h->base;
		if (ranges_overlap(h->base, h->end, CK_VDSO_AT, CK_VDSO_AT + CK_VDSO_SIZE))
			h->end = h->base < CK_VDSO_AT ? CK_VDSO_AT : h->base;
		if (h->end - h->base < WINDOW_MIN)
			ck_die("%s: its base 0x%x collides with another half's or the vdso: less "
			       "than 4 GiB "
			       "between them",
			       h->name, h->base);
	}
}

/* The application lies above the lower halves, so that their places do not depend on it. */
static void place_others(void)
{
	uint64_t at = CK_WINDOW_FIRST;

	for (unsigned int n = 1; n <= ck_info.halves; n++) {
		struct ck_half *h = &ck_halves[n % ck_info.halves];

		if (h->end)
			continue;
		for (unsigned int j = 0; j < ck_info.halves; j++) {
			const struct ck_half *o = &ck_halves[j];

			if (o->end && ranges_overlap(at, at + CK_WINDOW_SIZE, o->base, o->end)) {
				at += CK_WINDOW_SIZE;
				j = -1u;
			}
		}
		h->base = at;
		h->end = at += CK_WINDOW_SIZE;
	}
}

/* A program at a fixed address must not overlap a window or another such program. */
static void check_places(void)
{
	extern char __executable_start[], _end[];
	uint64_t lo = (uint64_t)__executable_start, hi = (uint64_t)_end;

	for (unsigned int i = 0; i < ck_info.halves; i++) {
		struct ck_half *h = &ck_halves[i];
		const struct ck_elf *p = &h->program;

		if (ranges_overlap(h->base, h->end, lo, hi))
			ck_die("%s: its base 0x%x collides with the loader, at 0x%x", h->name,
			       h->base, lo);
		if (p->head.e_type != ET_EXEC)
			continue;
		for (unsigned int j = 0; j < ck_info.halves; j++) {
			const struct ck_half *o = &ck_halves[j];

			if (ranges_overlap(p->lo, p->hi, o->base, o->end) ||
			    ranges_overlap(p->lo, p->hi, lo, hi) ||
			    (o != h && o->program.head.e_type == ET_EXEC &&
			     ranges_overlap(p->lo, p->hi, o->program.lo, o->program.hi)))
				ck_die("%s: %s is not position-independent, and its place 0x%x "
				       "collides with %s",
				       h->name, h->path, p->lo, o->name);
		}
	}
}

static void set_windows(void)
{
	for (unsigned int i = 0; i < ck_info.halves; i++) {
		struct lh_half *l = &ck_info.half[i];
		struct ck_half *h = &ck_halves[i];

		ck_window_set(i, h->base, h->end);
		ck_copy_text(l->name, sizeof(l->name), h->name, ck_strlen(h->name));
		l->base = h->base;
		l->end = h->end;
		l->entry = h->program.head.e_entry;
	}
}

/* RLIMIT_AS is found out before a half runs, as far as that can be known: a stack, and some MiB. */
static void check_memory(void)
{
	for (unsigned int i = 0; i < ck_info.halves; i++) {
		size_t size = ck_info.halves * LOAD_MIN;
		long at = ck_window_mmap(i, 0, size, PROT_NONE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (is_error(at))
			ck_die("%s: no room for %u MiB at 0x%x: %m%s", ck_halves[i].name,
			       (unsigned int)(size >> 20), ck_halves[i].base, (int)-at,
			       at == -ENOMEM ? " (RLIMIT_AS, ulimit -v, too small?)" : "");
		ck_window_munmap((uint64_t)at, size);
		ck_window_clear(i);
	}
}

void ck_place_all(void)
{
	for (unsigned int i = 0; i < ck_info.halves; i++)
		read_program(&ck_halves[i]);
	place_given();
	place_others();
	check_places();
	set_windows();
	check_memory();
}
