/*
 * loader/map.c - who lies where, for people and for gdb.
 */
#include "loader/half.h"
#include "loader/maps.h"
#include "loader/window.h"

extern char __executable_start[], _end[];

static const char *find_owner(const struct ck_mapping *m)
{
	int half = ck_window_of(m->start);

	if (half >= 0)
		return ck_halves[half].name;
	if (m->start >= page_down((uint64_t)__executable_start) &&
	    m->end <= page_up((uint64_t)_end))
		return "loader";
	return "kernel";
}

/* Whether it belongs to a program that is not position-independent, which no window can hold. */
static bool in_fixed_program(const struct ck_mapping *m)
{
	for (unsigned int i = 0; i < ck_info.halves; i++) {
		const struct ck_elf *p = &ck_halves[i].program;

		if (p->head.e_type == ET_EXEC && m->start >= p->lo && m->end <= p->hi)
			return true;
	}
	return false;
}

static void look_for_stray(const struct ck_mapping *m, void *argument)
{
	if (*m->name == '/' && m->access[2] == 'x' && !ck_strcmp(find_owner(m), "kernel") &&
	    !in_fixed_program(m))
		ck_format(argument, CK_STRAY_SIZE, "%s", m->name);
}

bool ck_map_stray(char name[CK_STRAY_SIZE])
{
	*name = '\0';
	ck_maps_each(look_for_stray, name);
	return *name;
}

static void print_line(const struct ck_mapping *m, void *argument)
{
	char access[5] = {0};

	memcpy(access, m->access, 4);
	ck_print(*(int *)argument, "%s\t%x-%x %s %s\n", find_owner(m), m->start, m->end, access,
		 *m->name ? m->name : "-");
}

/* First a line a half, then every mapping with the half that it belongs to. */
void ck_map_print(int fd)
{
	for (unsigned int i = 0; i < ck_info.halves; i++)
		ck_print(fd, "%s\twindow %x-%x %s\n", ck_halves[i].name, ck_halves[i].base,
			 ck_halves[i].end, ck_halves[i].path);
	ck_maps_each(print_line, &fd);
}

/* gdb finds the loader by itself, and knows of no other file of the process. */
static void gdb_line(const struct ck_mapping *m, void *argument)
{
	int half = ck_window_of(m->start);

	if (m->offset || *m->name != '/' || !ck_strcmp(find_owner(m), "loader"))
		return;
	if (half >= 0)
		ck_print(*(int *)argument, "add-symbol-file %s -o 0x%x\n", m->name, m->start);
	else if (!ck_strcmp(m->name, ck_halves[0].path))
		ck_print(*(int *)argument, "add-symbol-file %s\n", m->name);
}

void ck_map_gdb(const char *path)
{
	int fd = (int)sys3(__NR_open, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0) {
		ck_say("%s: %m", path, -fd);
		return;
	}
	ck_print(fd, "set auto-load libthread-db off\nset confirm off\n");
	ck_maps_each(gdb_line, &fd);
	sys1(__NR_close, fd);
}
