/*
 * loader/sites.c - finding where a libc gets memory and installs handlers.
 *
 * Debian's ld.so has no symbols for it, and every build of glibc has other addresses. But all of
 * them set the call's number in a register as a constant, some argument registers perhaps, and
 * enter the kernel:
 *
 *	mov $9, %eax			mov $9, %ecx
 *	or $0x40, %r10d			xor %edi, %edi
 *	syscall				mov %ecx, %eax
 *					syscall
 *
 * A file may do so in several places (glibc 2.39 tries in ld.so whether text may be changed,
 * and 2.31 has a second mmap for addresses below 4 GiB). syscall(3), whose number is its caller's,
 * ends in
 *
 *	mov 8(%rsp), %r9
 *	syscall
 *
 * To be sure that a libc makes a call in no other way, the functions that it exports are looked at
 * too: each must have a place in it.
 */
#include <linux/elf.h>

#include "loader/code.h"
#include "loader/sites.h"

static const struct call {
	const char *name;
	uint32_t number;
	const char *function; /* exported by libc; NULL: it may be anywhere */
	bool in_ldso;
} calls[CK_CALLS] = {
	[CK_CALL_MMAP] = {"mmap", __NR_mmap, "mmap", true},
	[CK_CALL_MUNMAP] = {"munmap", __NR_munmap, "munmap", true},
	[CK_CALL_BRK] = {"brk", __NR_brk, "brk", true},
	[CK_CALL_SIGACTION] = {"rt_sigaction", __NR_rt_sigaction, "__libc_sigaction", true},
	[CK_CALL_MREMAP] = {"mremap", __NR_mremap, "mremap", false},
	[CK_CALL_ANY] = {"syscall()", -1u, "syscall", false},
};

static const uint8_t enter_kernel[] = {0x0f, 0x05};
static const uint8_t any_call[] = {0x4c, 0x8b, 0x4c, 0x24, 0x08, 0x0f, 0x05};

const char *ck_sites_name(unsigned int call)
{
	return calls[call].name;
}

static int call_of(uint32_t number)
{
	for (int i = 0; i < CK_CALL_ANY; i++)
		if (calls[i].number == number)
			return i;
	return -1;
}

/* The site that begins at @code: its size, and *call; 0: none does. */
static size_t site_at(const uint8_t *code, size_t left, uint8_t *call)
{
	uint32_t number, holding;
	size_t at, step;
	int known;

	if (left >= sizeof(any_call) && !memcmp(code, any_call, sizeof(any_call))) {
		*call = CK_CALL_ANY;
		return sizeof(any_call);
	}
	at = ck_code_constant(code, left, &number, &holding);
	known = at ? call_of(number) : -1;
	if (known < 0)
		return 0;
	*call = (uint8_t)known;
	while (at <= CK_SITE_BYTES && left - at >= sizeof(enter_kernel)) {
		if (!memcmp(code + at, enter_kernel, sizeof(enter_kernel)))
			return holding & 1 ? at + sizeof(enter_kernel) : 0;
		step = ck_code_step(code + at, left - at, &holding);
		if (!step)
			return 0;
		at += step;
	}
	return 0;
}

static int scan_range(const uint8_t *file, uint64_t from, uint64_t end, struct ck_sites *found)
{
	for (uint64_t at = from; at < end;) {
		struct ck_site s = {.offset = at};

		s.size = (uint8_t)site_at(file + at, end - at, &s.call);
		if (!s.size) {
			/* behind a prefix that names another register it is not the same constant
			 */
			at += file[at] == 0x41 && end - at > 1 && (file[at + 1] & 0xf8) == 0xb8 ? 2
												: 1;
			continue;
		}
		if (found->count == CK_SITES) {
			found->call = calls[s.call].name;
			return -ENOEXEC;
		}
		found->site[found->count++] = s;
		at += s.size;
	}
	return 0;
}

/* --- the file: nothing that it says of itself is believed before it lies in the file */

/* @count things of @each bytes at @offset; NULL: they are not all in the file, or lie askew in it.
 */
static const void *in_file(const uint8_t *file, size_t size, uint64_t offset, uint64_t count,
			   size_t each)
{
	if (each > 1 && offset % sizeof(uint64_t))
		return NULL;
	return offset <= size && count <= (size - offset) / each ? file + offset : NULL;
}

static const Elf64_Ehdr *head_of(const uint8_t *file, size_t size)
{
	const Elf64_Ehdr *h = in_file(file, size, 0, 1, sizeof(*h));

	return h && !memcmp(h->e_ident, ELFMAG, SELFMAG) && h->e_ident[EI_CLASS] == ELFCLASS64 &&
			       h->e_machine == EM_X86_64 && h->e_phentsize == sizeof(Elf64_Phdr)
		       ? h
		       : NULL;
}

static const Elf64_Phdr *segments_of(const uint8_t *file, size_t size, const Elf64_Ehdr *h)
{
	return in_file(file, size, h->e_phoff, h->e_phnum, sizeof(Elf64_Phdr));
}

static bool has_site(const struct ck_sites *found, unsigned int call, uint64_t from, uint64_t end)
{
	for (unsigned int i = 0; i < found->count; i++)
		if (found->site[i].call == call && found->site[i].offset >= from &&
		    found->site[i].offset < end)
			return true;
	return false;
}

static bool same_text(const char *a, const char *b, size_t left)
{
	for (; left && *a == *b; a++, b++, left--)
		if (!*a)
			return true;
	return false;
}

/* The place of the function's code in the file; false: unknown. */
static bool place_of(const Elf64_Ehdr *h, const Elf64_Phdr *segments, const Elf64_Sym *s,
		     uint64_t *from)
{
	for (int i = 0; i < h->e_phnum; i++) {
		const Elf64_Phdr *p = &segments[i];

		if (p->p_type == PT_LOAD && s->st_value >= p->p_vaddr &&
		    s->st_value - p->p_vaddr < p->p_filesz) {
			*from = p->p_offset + (s->st_value - p->p_vaddr);
			return true;
		}
	}
	return false;
}

/*
 * Compares the exported functions with the sites. False: found->call and function name the one
 * without a site.
 */
static bool check_functions(const uint8_t *file, size_t size, const Elf64_Ehdr *h,
			    const Elf64_Shdr *table, const Elf64_Shdr *names,
			    struct ck_sites *found)
{
	const Elf64_Sym *s =
		in_file(file, size, table->sh_offset, table->sh_size / sizeof(*s), sizeof(*s));
	const char *text = in_file(file, size, names->sh_offset, names->sh_size, 1);
	uint64_t from;

	for (uint64_t i = 0; s && text && i < table->sh_size / sizeof(*s); i++) {
		if (!s[i].st_size || !s[i].st_shndx || s[i].st_name >= names->sh_size)
			continue;
		for (unsigned int c = 0; c < CK_CALLS; c++) {
			if (!same_text(text + s[i].st_name, calls[c].function,
				       names->sh_size - s[i].st_name) ||
			    !place_of(h, segments_of(file, size, h), &s[i], &from) ||
			    has_site(found, c, from, from + s[i].st_size))
				continue;
			found->call = calls[c].name;
			found->function = calls[c].function;
			return false;
		}
	}
	return true;
}

/* A file without sections has no names to ask; then the names found in its text must do. */
static bool functions_are_known(const uint8_t *file, size_t size, const Elf64_Ehdr *h,
				struct ck_sites *found)
{
	const Elf64_Shdr *sections = in_file(file, size, h->e_shoff, h->e_shnum, sizeof(*sections));

	if (h->e_shentsize != sizeof(*sections))
		return true;
	for (unsigned int i = 0; sections && i < h->e_shnum; i++)
		if (sections[i].sh_type == SHT_DYNSYM && sections[i].sh_link < h->e_shnum &&
		    !check_functions(file, size, h, &sections[i], &sections[sections[i].sh_link],
				     found))
			return false;
	return true;
}

int ck_sites_find(enum ck_file kind, const uint8_t *file, size_t size, struct ck_sites *found)
{
	const Elf64_Ehdr *h = head_of(file, size);
	const Elf64_Phdr *p = h ? segments_of(file, size, h) : NULL;
	int ret = p ? 0 : -ENOEXEC;

	found->count = 0;
	found->call = found->function = NULL;
	for (int i = 0; !ret && i < h->e_phnum; i++)
		if (p[i].p_type == PT_LOAD && p[i].p_flags & PF_X && p[i].p_offset < size)
			ret = scan_range(file, p[i].p_offset,
					 p[i].p_filesz < size - p[i].p_offset
						 ? p[i].p_offset + p[i].p_filesz
						 : size,
					 found);
	for (unsigned int c = 0; !ret && c < CK_CALLS && kind != CK_FILE_OTHER; c++) {
		if ((kind == CK_FILE_LDSO && !calls[c].in_ldso) || has_site(found, c, 0, size))
			continue;
		found->call = calls[c].name;
		ret = -ENOEXEC;
	}
	if (!ret && kind == CK_FILE_LIBC && !functions_are_known(file, size, h, found))
		ret = -ENOEXEC;
	return ret;
}
