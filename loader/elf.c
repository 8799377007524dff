/*
 * loader/elf.c - reading the head of an ELF file, and mapping ld.so as the kernel would.
 */
#include "loader/elf.h"

static long read_at(int fd, void *to, size_t size, uint64_t offset)
{
	return sys4(__NR_pread64, fd, to, size, offset);
}

static int reject_file(const char **why, const char *reason)
{
	*why = reason;
	return -ENOEXEC;
}

static int check_head(const Elf64_Ehdr *h, const char **why)
{
	if (h->e_ident[0] == '#' && h->e_ident[1] == '!')
		return reject_file(why, "is a script; start its interpreter");
	if (memcmp(h->e_ident, ELFMAG, SELFMAG))
		return reject_file(why, "is not an ELF file");
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_machine != EM_X86_64)
		return reject_file(why, "is not for x86-64: wrong architecture");
	if (h->e_type != ET_DYN && h->e_type != ET_EXEC)
		return reject_file(why, "is not a program");
	if (h->e_phentsize != sizeof(Elf64_Phdr) || !h->e_phnum || h->e_phnum > CK_PHDRS)
		return reject_file(why, "is damaged: its program headers");
	return 0;
}

static int read_segments(int fd, struct ck_elf *elf, const char **why)
{
	size_t size = elf->head.e_phnum * sizeof(Elf64_Phdr);
	uint64_t file = (uint64_t)sys3(__NR_lseek, fd, 0, 2 /* SEEK_END */);

	elf->lo = ~0ull;
	elf->hi = 0;
	elf->interpreter[0] = '\0';
	if (read_at(fd, elf->segments, size, elf->head.e_phoff) != (long)size)
		return reject_file(why, "is damaged: its program headers");
	for (int i = 0; i < elf->head.e_phnum; i++) {
		const Elf64_Phdr *s = &elf->segments[i];

		if (s->p_type == PT_INTERP) {
			if (!s->p_filesz || s->p_filesz > sizeof(elf->interpreter) ||
			    read_at(fd, elf->interpreter, s->p_filesz, s->p_offset) !=
				    (long)s->p_filesz)
				return reject_file(why, "is damaged: its interpreter's name");
			elf->interpreter[s->p_filesz - 1] = '\0';
		}
		if (s->p_type != PT_LOAD)
			continue;
		if (s->p_filesz > s->p_memsz || s->p_vaddr + s->p_memsz < s->p_vaddr ||
		    s->p_vaddr + s->p_memsz > 1ull << 46 || (s->p_vaddr - s->p_offset) % PAGE)
			return reject_file(why, "is damaged: its segments");
		if (s->p_offset > file || s->p_filesz > file - s->p_offset)
			return reject_file(why, "is damaged: it ends before its segments do");
		if (page_down(s->p_vaddr) < elf->lo)
			elf->lo = page_down(s->p_vaddr);
		if (page_up(s->p_vaddr + s->p_memsz) > elf->hi)
			elf->hi = page_up(s->p_vaddr + s->p_memsz);
	}
	return elf->hi ? 0 : reject_file(why, "is damaged: it has nothing to load");
}

int ck_elf_read(const char *path, struct ck_elf *elf, const char **why)
{
	/* a pipe is not waited for */
	int fd = (int)sys3(__NR_open, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0), ret;
	long n;

	*why = NULL;
	if (fd < 0)
		return fd;
	memset(&elf->head, 0, sizeof(elf->head));
	n = read_at(fd, &elf->head, sizeof(elf->head), 0);
	if (n < 0)
		ret = (int)n;
	else
		ret = check_head(&elf->head, why);
	if (!ret)
		ret = read_segments(fd, elf, why);
	sys1(__NR_close, fd);
	return ret;
}

/* The rest of a segment's last page in the file is zeroed to the page's end: ld.so relies on it. */
static int map_segment(int fd, const Elf64_Phdr *s, uint64_t base)
{
	int prot = (s->p_flags & PF_R ? PROT_READ : 0) | (s->p_flags & PF_W ? PROT_WRITE : 0) |
		   (s->p_flags & PF_X ? PROT_EXEC : 0);
	uint64_t start = page_down(base + s->p_vaddr), in_file = base + s->p_vaddr + s->p_filesz;
	uint64_t end = page_up(base + s->p_vaddr + s->p_memsz), from = page_up(in_file);
	long ret = 0;

	if (s->p_filesz)
		ret = sys_mmap(start, from - start, prot, MAP_PRIVATE | MAP_FIXED, fd,
			       page_down(s->p_offset));
	else
		from = start;
	if (is_error(ret))
		return (int)ret;
	if (s->p_memsz > s->p_filesz && s->p_flags & PF_W && s->p_filesz)
		memset((void *)in_file, 0, from - in_file);
	if (end > from)
		ret = sys_mmap(from, end - from, prot, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1,
			       0);
	return is_error(ret) ? (int)ret : 0;
}

int ck_elf_map(const char *path, const struct ck_elf *elf, uint64_t base)
{
	int fd = (int)sys3(__NR_open, path, O_RDONLY | O_CLOEXEC, 0);
	long ret = 0;

	if (fd < 0)
		return fd;
	for (int i = 0; !is_error(ret) && i < elf->head.e_phnum; i++)
		if (elf->segments[i].p_type == PT_LOAD)
			ret = map_segment(fd, &elf->segments[i], base);
	sys1(__NR_close, fd);
	return is_error(ret) ? (int)ret : 0;
}
