/*
 * loader/patch.c - turning the system calls by which a libc gets memory and handlers.
 *
 * A site (sites.c) begins with an instruction that a jump fits. It leads to a piece of code in the
 * half's first page, in reach of it, which does the work of the site up to its system call, and
 * then goes to the loader. The rest of the site stays as it is, so that whoever jumps into its
 * middle finds what he expects.
 */
#include "loader/patch.h"
#include "loader/lhinfo.h"

#define PIECE 64
#define JUMP 5

static struct {
	uint64_t page;
	unsigned int pieces;
} halves[LHINFO_HALVES];

extern char ck_hook_entry[];

bool ck_patch_kind(const char *name, enum ck_file *kind)
{
	static const struct {
		const char *begins;
		enum ck_file kind;
	} files[] = {{"libc.so.6", CK_FILE_LIBC},
		     {"libc-2.", CK_FILE_LIBC},
		     {"libpthread.so.0", CK_FILE_OTHER},
		     {"libpthread-2.", CK_FILE_OTHER},
		     {"libucm.so.", CK_FILE_OTHER}};

	for (unsigned int i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (!ck_starts(name, files[i].begins))
			continue;
		*kind = files[i].kind;
		return true;
	}
	return false;
}

void ck_patch_begin(unsigned int half, uint64_t page)
{
	halves[half].page = page;
	halves[half].pieces = 0;
}

/*
 *	the site's work before its system call
 *	movabs $back, %rcx
 *	mov $half, %r11d
 *	jmp *0(%rip)
 *	.quad ck_hook_entry
 */
static void write_piece(uint8_t *p, const uint8_t *site, size_t before, uint64_t back,
			unsigned int half)
{
	uint64_t entry = (uint64_t)ck_hook_entry;

	memcpy(p, site, before), p += before;
	*p++ = 0x48, *p++ = 0xb9;
	memcpy(p, &back, 8), p += 8;
	*p++ = 0x41, *p++ = 0xbb;
	memcpy(p, &half, 4), p += 4;
	*p++ = 0xff, *p++ = 0x25;
	memset(p, 0, 4), p += 4;
	memcpy(p, &entry, 8);
}

static int write_jump(uint64_t site, uint64_t to)
{
	int64_t distance = (int64_t)(to - (site + JUMP));
	int32_t near = (int32_t)distance;

	if (near != distance)
		return -ERANGE;
	*(uint8_t *)site = 0xe9;
	memcpy((void *)(site + 1), &near, 4);
	return 0;
}

static long protect_pages(uint64_t at, size_t size, int prot)
{
	return sys3(__NR_mprotect, page_down(at), page_up(at + size) - page_down(at), prot);
}

static int patch_site(unsigned int half, const struct ck_site *s, uint64_t at)
{
	uint64_t piece = halves[half].page + halves[half].pieces * PIECE;
	int ret;

	if (piece + PIECE > halves[half].page + CK_PATCH_SIZE)
		return -ENOSPC;
	/* other threads may be in the pieces that were there before */
	protect_pages(piece, PIECE, PROT_READ | PROT_WRITE | PROT_EXEC);
	write_piece((uint8_t *)piece, (const uint8_t *)at, s->size - 2u, at + s->size, half);
	ret = (int)protect_pages(piece, PIECE, PROT_READ | PROT_EXEC);
	if (!ret)
		ret = (int)protect_pages(at, JUMP, PROT_READ | PROT_WRITE | PROT_EXEC);
	if (!ret)
		ret = write_jump(at, piece);
	if (!ret)
		ret = (int)protect_pages(at, JUMP, PROT_READ | PROT_EXEC);
	if (!ret)
		halves[half].pieces++;
	return ret;
}

long ck_patch_open(int fd, size_t *size)
{
	long end = sys3(__NR_lseek, fd, 0, 2 /* SEEK_END */);

	if (is_error(end))
		return end;
	*size = (size_t)end;
	return sys_mmap(0, *size, PROT_READ, MAP_PRIVATE, fd, 0);
}

int ck_patch_mapped(unsigned int half, enum ck_file kind, int fd, uint64_t at, size_t size,
		    uint64_t offset, struct ck_sites *found)
{
	size_t length = 0;
	long file = ck_patch_open(fd, &length);
	int ret;

	if (is_error(file))
		return (int)file;
	ret = ck_sites_find(kind, (const uint8_t *)file, length, found);
	sys2(__NR_munmap, file, length);
	for (unsigned int i = 0; !ret && i < found->count; i++) {
		const struct ck_site *s = &found->site[i];

		if (s->offset >= offset && s->offset + s->size <= offset + size)
			ret = patch_site(half, s, at + (s->offset - offset));
	}
	return ret;
}

/*
 *	mov %edi, %esi
 *	mov $half, %edi
 *	movabs $to, %rax
 *	jmp *%rax
 */
int ck_patch_exit(unsigned int half, uint64_t at, void (*to)(unsigned int half, int status))
{
	uint8_t code[19] = {0x89, 0xfe, 0xbf, 0, 0, 0, 0, 0x48, 0xb8}, *p = code + 3;
	uint64_t target = (uint64_t)to;
	int ret = (int)protect_pages(at, sizeof(code), PROT_READ | PROT_WRITE | PROT_EXEC);

	if (ret)
		return ret;
	memcpy(p, &half, 4);
	memcpy(code + 9, &target, 8);
	code[17] = 0xff, code[18] = 0xe0;
	memcpy((void *)at, code, sizeof(code));
	return (int)protect_pages(at, sizeof(code), PROT_READ | PROT_EXEC);
}
