/*
 * tests/unit/test_loader_sites.c - where a libc makes its system calls: forms that compilers write,
 * and those that may not be taken for one. The loader is linked with no libc, so its files are
 * included.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* after these */
#include <cmocka.h>
#include <string.h>

#include "loader/code.c"
#include "loader/sites.c"

#define TEXT 0x1000

static uint8_t file[0x3000] __attribute__((aligned(8)));

/* A file with one executable segment, whose bytes are these. */
static void make(const void *text, size_t size)
{
	Elf64_Ehdr head = {.e_machine = EM_X86_64,
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_phnum = 1,
			   .e_phoff = sizeof(head),
			   .e_type = ET_DYN};
	Elf64_Phdr segment = {.p_type = PT_LOAD,
			      .p_flags = PF_R | PF_X,
			      .p_offset = TEXT,
			      .p_vaddr = TEXT,
			      .p_filesz = size,
			      .p_memsz = size};

	memcpy(head.e_ident, ELFMAG, SELFMAG);
	head.e_ident[EI_CLASS] = ELFCLASS64;
	memset(file, 0, sizeof(file));
	memcpy(file, &head, sizeof(head));
	memcpy(file + sizeof(head), &segment, sizeof(segment));
	memcpy(file + TEXT, text, size);
}

/* How many sites text has, the first in *first. */
static unsigned int sites(const void *text, size_t size, struct ck_site *first)
{
	struct ck_sites found;

	make(text, size);
	assert_int_equal(ck_sites_find(CK_FILE_OTHER, file, sizeof(file), &found), 0);
	if (found.count)
		*first = found.site[0];
	return found.count;
}

#define SITES(first, ...) sites((uint8_t[]){__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__}), first)
#define SYSCALL 0x0f, 0x05

static void assert_site(const struct ck_site *s, enum ck_call call, uint64_t at, size_t size)
{
	assert_int_equal(s->call, call);
	assert_int_equal(s->offset, TEXT + at);
	assert_int_equal(s->size, size);
}

static void a_number_and_a_system_call_are_a_site(void **state)
{
	struct ck_site s;

	(void)state;
	assert_int_equal(SITES(&s, 0x90, 0xb8, 11, 0, 0, 0, SYSCALL, 0xc3), 1);
	assert_site(&s, CK_CALL_MUNMAP, 1, 7);
	assert_int_equal(SITES(&s, 0xb8, 25, 0, 0, 0, SYSCALL), 1);
	assert_site(&s, CK_CALL_MREMAP, 0, 7);
	assert_int_equal(SITES(&s, 0x4c, 0x8b, 0x4c, 0x24, 0x08, SYSCALL), 1);
	assert_site(&s, CK_CALL_ANY, 0, 7);
}

/* glibc 2.41: mov $9, %eax; or $0x40, %r10d; syscall */
static void arguments_may_be_set_in_between(void **state)
{
	struct ck_site s;

	(void)state;
	assert_int_equal(SITES(&s, 0xb8, 9, 0, 0, 0, 0x41, 0x83, 0xca, 0x40, SYSCALL), 1);
	assert_site(&s, CK_CALL_MMAP, 0, 11);
	/* lea 16(%rsp), %rsi; mov $8, %r10d; xor %edx, %edx; movups %xmm0, 8(%rsp); movabs $1, %rdx
	 */
	assert_int_equal(SITES(&s, 0xb8, 13, 0, 0, 0, 0x48, 0x8d, 0x74, 0x24, 0x10, 0x41, 0xba, 8,
			       0, 0, 0, 0x31, 0xd2, 0x0f, 0x11, 0x44, 0x24, 0x08, SYSCALL),
			 1);
	assert_site(&s, CK_CALL_SIGACTION, 0, 25);
}

/* glibc 2.31: mov $9, %ecx; xor %edi, %edi; or $0x40, %r10d; mov %ecx, %eax; syscall */
static void the_number_may_come_by_another_register(void **state)
{
	struct ck_site s;

	(void)state;
	assert_int_equal(SITES(&s, 0xb9, 9, 0, 0, 0, 0x31, 0xff, 0x41, 0x83, 0xca, 0x40, 0x89, 0xc8,
			       SYSCALL),
			 1);
	assert_site(&s, CK_CALL_MMAP, 0, 15);
	/* mov $12, %r8d; mov %r8d, %eax */
	assert_int_equal(SITES(&s, 0x41, 0xb8, 12, 0, 0, 0, 0x44, 0x89, 0xc0, SYSCALL), 1);
	assert_site(&s, CK_CALL_BRK, 0, 11);
}

static void another_number_is_no_site(void **state)
{
	struct ck_site s;

	(void)state;
	assert_int_equal(SITES(&s, 0xb8, 10, 0, 0, 0, SYSCALL), 0);
	/* it is overwritten: mov %edx, %eax; mov $10, %eax; xor %eax, %eax; mov (%rdi), %eax;
	 * movzbl %cl, %eax */
	assert_int_equal(SITES(&s, 0xb8, 9, 0, 0, 0, 0x89, 0xd0, SYSCALL), 0);
	assert_int_equal(SITES(&s, 0xb8, 9, 0, 0, 0, 0xb8, 10, 0, 0, 0, SYSCALL), 0);
	assert_int_equal(SITES(&s, 0xb8, 9, 0, 0, 0, 0x31, 0xc0, SYSCALL), 0);
	assert_int_equal(SITES(&s, 0xb8, 9, 0, 0, 0, 0x8b, 0x07, SYSCALL), 0);
	assert_int_equal(SITES(&s, 0xb8, 9, 0, 0, 0, 0x0f, 0xb6, 0xc1, SYSCALL), 0);
	/* it never comes to rax: mov $9, %ecx; mov $9, %r8d */
	assert_int_equal(SITES(&s, 0xb9, 9, 0, 0, 0, SYSCALL), 0);
	assert_int_equal(SITES(&s, 0x41, 0xb8, 9, 0, 0, 0, SYSCALL), 0);
}

/* What would do something else in another place: jumps, calls, data found by the code's own
 * address. */
static void code_that_cannot_be_carried_is_no_site(void **state)
{
	struct ck_site s;

	(void)state;
	assert_int_equal(SITES(&s, 0xb8, 9, 0, 0, 0, 0x74, 0x02, SYSCALL), 0);
	assert_int_equal(SITES(&s, 0xb8, 9, 0, 0, 0, 0xe8, 0, 0, 0, 0, SYSCALL), 0);
	assert_int_equal(SITES(&s, 0xb8, 9, 0, 0, 0, 0x48, 0x8d, 0x3d, 0, 0, 0, 0, SYSCALL), 0);
	assert_int_equal(SITES(&s, 0xb8, 9, 0, 0, 0, 0xc7, 0xf8, 0, 0, 0, 0, SYSCALL), 0);
	assert_int_equal(SITES(&s, 0xb8, 9, 0, 0, 0, 0xc3, SYSCALL), 0);
}

static void a_site_has_a_greatest_length(void **state)
{
	uint8_t text[64] = {0xb8, 9};
	struct ck_site s;

	(void)state;
	memset(text + 5, 0x90, sizeof(text) - 5);
	memcpy(text + CK_SITE_BYTES, enter_kernel, 2);
	assert_int_equal(sites(text, sizeof(text), &s), 1);
	assert_int_equal(s.size, CK_SITE_BYTES + 2);
	memset(text + 5, 0x90, sizeof(text) - 5);
	memcpy(text + CK_SITE_BYTES + 1, enter_kernel, 2);
	assert_int_equal(sites(text, sizeof(text), &s), 0);
}

static void what_is_cut_off_is_not_read(void **state)
{
	static const uint8_t text[] = {0xb8, 9, 0, 0, 0, 0x48, 0x8d, 0x74, 0x24, 0x10, SYSCALL};

	(void)state;
	for (size_t size = 0; size < sizeof(text); size++) {
		uint8_t *exact = malloc(size + 1); /* sanitizers watch its end */
		uint32_t value, holding = 1;
		uint8_t call;

		memcpy(exact, text, size);
		assert_int_equal(site_at(exact, size, &call), 0);
		ck_code_constant(exact, size, &value, &holding);
		free(exact);
	}
}

static const uint8_t all_calls[] = {
	0xb8, 9, 0, 0,	     0,	      SYSCALL, 0xb8, 11,   0,	 0,	  0,	   SYSCALL, 0xb8,
	12,   0, 0, 0,	     SYSCALL, 0xb8,    13,   0,	   0,	 0,	  SYSCALL, 0xb8,    25,
	0,    0, 0, SYSCALL, 0x4c,    0x8b,    0x4c, 0x24, 0x08, SYSCALL, 0xc3,
};

static void a_call_that_is_missing_is_named(void **state)
{
	struct ck_sites found;

	(void)state;
	make(all_calls, sizeof(all_calls));
	assert_int_equal(ck_sites_find(CK_FILE_LIBC, file, sizeof(file), &found), 0);
	assert_int_equal(found.count, CK_CALLS);
	make(all_calls, 28);
	assert_int_equal(ck_sites_find(CK_FILE_LDSO, file, sizeof(file), &found), 0);
	assert_int_equal(ck_sites_find(CK_FILE_LIBC, file, sizeof(file), &found), -ENOEXEC);
	assert_string_equal(found.call, "mremap");
	assert_null(found.function);
	make(all_calls + 7, 21);
	assert_int_equal(ck_sites_find(CK_FILE_LDSO, file, sizeof(file), &found), -ENOEXEC);
	assert_string_equal(found.call, "mmap");
	assert_int_equal(found.count, 3);
}

/* Gives the file a table of one function: @name, @size bytes from @at in the text. */
static void export(const char *name, uint64_t at, uint64_t size)
{
	Elf64_Ehdr *head = (Elf64_Ehdr *)file;
	Elf64_Shdr *section = (Elf64_Shdr *)(file + 0x2000);
	Elf64_Sym *symbol = (Elf64_Sym *)(file + 0x2200);

	head->e_shoff = 0x2000;
	head->e_shnum = 2;
	head->e_shentsize = sizeof(*section);
	section[0] = (Elf64_Shdr){.sh_type = SHT_DYNSYM,
				  .sh_link = 1,
				  .sh_offset = 0x2200,
				  .sh_size = 2 * sizeof(*symbol)};
	section[1] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = 0x2400, .sh_size = 64};
	symbol[1] =
		(Elf64_Sym){.st_name = 1, .st_shndx = 1, .st_value = TEXT + at, .st_size = size};
	strcpy((char *)file + 0x2401, name);
}

static void a_function_without_its_call_is_named(void **state)
{
	struct ck_sites found;

	(void)state;
	make(all_calls, sizeof(all_calls));
	export("munmap", 7, 7);
	assert_int_equal(ck_sites_find(CK_FILE_LIBC, file, sizeof(file), &found), 0);
	export("munmap", 14, 7);
	assert_int_equal(ck_sites_find(CK_FILE_LIBC, file, sizeof(file), &found), -ENOEXEC);
	assert_string_equal(found.call, "munmap");
	assert_string_equal(found.function, "munmap");
	export("munmap64", 14, 7);
	assert_int_equal(ck_sites_find(CK_FILE_LIBC, file, sizeof(file), &found), 0);
}

static void too_many_sites_are_refused(void **state)
{
	uint8_t text[(CK_SITES + 1) * 7];
	struct ck_sites found;

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = all_calls[i % 7];
	make(text, sizeof(text));
	assert_int_equal(ck_sites_find(CK_FILE_OTHER, file, sizeof(file), &found), -ENOEXEC);
	assert_int_equal(found.count, CK_SITES);
}

/* Every byte of the heads is changed: no read outside of the file, and no other answer than yes or
 * no. */
static void a_damaged_file_is_refused_or_read(void **state)
{
	static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
	struct ck_sites found;

	(void)state;
	for (size_t at = 0; at < 0x2500; at = at == 0x78 ? 0x2000 : at + 1)
		for (size_t v = 0; v < sizeof(values); v++) {
			int ret;

			make(all_calls, sizeof(all_calls));
			export("munmap", 7, 7);
			file[at] = values[v];
			ret = ck_sites_find(CK_FILE_LIBC, file, sizeof(file), &found);
			assert_true(ret == 0 || ret == -ENOEXEC);
		}
	assert_int_equal(ck_sites_find(CK_FILE_LIBC, file, 0, &found), -ENOEXEC);
	assert_int_equal(ck_sites_find(CK_FILE_LIBC, file, 63, &found), -ENOEXEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_number_and_a_system_call_are_a_site),
		cmocka_unit_test(arguments_may_be_set_in_between),
		cmocka_unit_test(the_number_may_come_by_another_register),
		cmocka_unit_test(another_number_is_no_site),
		cmocka_unit_test(code_that_cannot_be_carried_is_no_site),
		cmocka_unit_test(a_site_has_a_greatest_length),
		cmocka_unit_test(what_is_cut_off_is_not_read),
		cmocka_unit_test(a_call_that_is_missing_is_named),
		cmocka_unit_test(a_function_without_its_call_is_named),
		cmocka_unit_test(too_many_sites_are_refused),
		cmocka_unit_test(a_damaged_file_is_refused_or_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
