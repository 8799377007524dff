/*
 * loader/patch.c - finding and turning the system calls by which a libc gets memory and handlers.
 *
 * Debian's ld.so has no symbols for them, but glibc writes each of these calls as
 *	b8 NN 00 00 00	mov $NN, %eax
 *	0f 05		syscall
 * in one place of ld.so and one of libc, and syscall(3) ends in
 *	4c 8b 4c 24 08	mov 8(%rsp), %r9
 *	0f 05		syscall
 * Seven bytes, which a jump fits. It goes to a piece of code in the half's first page, in reach of it. A libc
 * where one of them occurs never, or twice, is one that we do not know: it is refused.
 */
#include "loader/patch.h"
#include "loader/lhinfo.h"

#define SITE 7
#define PIECE 48

struct call {
	const char *name;
	int number;	    /* -1: syscall(3), where rax has it */
	bool in_ldso;
};

static const struct call calls[] = {
	{ "mmap", __NR_mmap, true },
	{ "munmap", __NR_munmap, true },
	{ "brk", __NR_brk, true },
	{ "rt_sigaction", __NR_rt_sigaction, true },
	{ "mremap", __NR_mremap, false },
	{ "syscall()", -1, false },
};

static struct {
	uint64_t page;
	unsigned int pieces;
} halves[LHINFO_HALVES];

extern char ck_hook_entry[];

static void pattern(const struct call *call, uint8_t bytes[SITE])
{
	static const uint8_t generic[SITE] = { 0x4c, 0x8b, 0x4c, 0x24, 0x08, 0x0f, 0x05 };
	uint32_t number = (uint32_t)call->number;

	memcpy(bytes, generic, SITE);
	if (call->number >= 0) {
		bytes[0] = 0xb8;
		memcpy(bytes + 1, &number, 4);
	}
}

static const uint8_t *find(const struct call *call, const uint8_t *text, size_t size,
			   unsigned int *count)
{
	const uint8_t *found = NULL;
	uint8_t bytes[SITE];

	pattern(call, bytes);
	*count = 0;
	for (size_t i = 0; i + SITE <= size; i++) {
		if (text[i] != bytes[0] || memcmp(text + i, bytes, SITE))
			continue;
		found = text + i;
		++*count;
	}
	return found;
}

int ck_patch_check(enum ck_file file, const uint8_t *text, size_t size, const char **what,
		   unsigned int *count)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		if (file == CK_FILE_LDSO && !calls[i].in_ldso)
			continue;
		find(&calls[i], text, size, count);
		*what = calls[i].name;
		if (*count != 1)
			return -ENOEXEC;
	}
	return 0;
}

void ck_patch_begin(unsigned int half, uint64_t page)
{
	halves[half].page = page;
	halves[half].pieces = 0;
}

unsigned int ck_patch_sites(unsigned int half)
{
	return halves[half].pieces;
}

/*
 *	mov 8(%rsp), %r9	or	mov $number, %eax
 *	movabs $back, %rcx
 *	mov $half, %r11d
 *	jmp *0(%rip)
 *	.quad ck_hook_entry
 */
static void write_piece(uint8_t *p, const struct call *call, uint64_t back, unsigned int half)
{
	uint64_t entry = (uint64_t)ck_hook_entry;

	pattern(call, p); /* its syscall is written over */
	p += 5;
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
	int64_t distance = (int64_t)(to - (site + 5));
	int32_t near = (int32_t)distance;
	uint8_t bytes[SITE] = { 0xe9, 0, 0, 0, 0, 0x66, 0x90 };

	if (near != distance)
		return -ERANGE;
	memcpy(bytes + 1, &near, 4);
	memcpy((void *)site, bytes, SITE);
	return 0;
}

static long protect(uint64_t at, size_t size, int prot)
{
	return sys3(__NR_mprotect, page_down(at), page_up(at + size) - page_down(at), prot);
}

static int turn(unsigned int half, const struct call *call, uint64_t site)
{
	uint64_t piece = halves[half].page + halves[half].pieces * PIECE;
	int ret;

	if (piece + PIECE > halves[half].page + PAGE)
		return -ENOSPC;
	protect(halves[half].page, PAGE, PROT_READ | PROT_WRITE);
	write_piece((uint8_t *)piece, call, site + SITE, half);
	ret = (int)protect(halves[half].page, PAGE, PROT_READ | PROT_EXEC);
	if (!ret)
		ret = (int)protect(site, SITE, PROT_READ | PROT_WRITE | PROT_EXEC);
	if (!ret)
		ret = write_jump(site, piece);
	if (!ret)
		ret = (int)protect(site, SITE, PROT_READ | PROT_EXEC);
	if (!ret)
		halves[half].pieces++;
	return ret;
}

int ck_patch_text(unsigned int half, enum ck_file file, uint64_t text, size_t size,
		  const char **what, unsigned int *count)
{
	int ret = ck_patch_check(file, (const uint8_t *)text, size, what, count);

	for (size_t i = 0; !ret && i < ARRAY_SIZE(calls); i++) {
		*what = calls[i].name;
		if (file == CK_FILE_LIBC || calls[i].in_ldso)
			ret = turn(half, &calls[i],
				   (uint64_t)find(&calls[i], (const uint8_t *)text, size, count));
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
	uint8_t code[19] = { 0x89, 0xfe, 0xbf, 0, 0, 0, 0, 0x48, 0xb8 }, *p = code + 3;
	uint64_t target = (uint64_t)to;
	int ret = (int)protect(at, sizeof(code), PROT_READ | PROT_WRITE | PROT_EXEC);

	if (ret)
		return ret;
	memcpy(p, &half, 4);
	memcpy(code + 9, &target, 8);
	code[17] = 0xff, code[18] = 0xe0;
	memcpy((void *)at, code, sizeof(code));
	return (int)protect(at, sizeof(code), PROT_READ | PROT_EXEC);
}
