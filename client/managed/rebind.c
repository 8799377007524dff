/*
 * client/managed/rebind.c - change the addresses by which the program and its libraries call
 * functions of the C library; see client/managed/rebind.h.
 *
 * A library calls a function of another one through a slot, which the dynamic linker fills with the
 * address of the first library that has the name. A client that is opened late is never the first.
 * So its addresses are put into the slots that lead to the C library. Another library that has put
 * its functions first, as sanitizers do, keeps them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/managed/rebind.h"
#include "util/log.h"
#include "util/page.h"
#include "util/util.h"

CK_LOG_DEFINE("client");

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__FUZZER__)

void ckc_rebind_begin(void)
{
}

void ckc_rebind(void)
{
}

#else

#if defined(__x86_64__)
static const unsigned int slot_types[] = {R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT, R_X86_64_64};
#elif defined(__aarch64__)
static const unsigned int slot_types[] = {R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT, R_AARCH64_ABS64};
#endif

#define FUNCTIONS_MAX 128 /* of interpose.c, at most */

/* Per process, as the slots are. */
static atomic_flag busy = ATOMIC_FLAG_INIT;
static _Atomic unsigned long long rebound; /* libraries loaded so far, when it was done last */
static _Atomic bool needed; /* managed memory is in use, and our functions are not found */

/* --- which functions */

static bool is_of_c_library(const void *function, const Dl_info *where)
{
	static const char *const names[] = {"libc.so", "libc-2", "libpthread", "librt"};
	const char *file = strrchr(where->dli_fname, '/');

	file = file ? file + 1 : where->dli_fname;
	for (size_t i = 0; function && i < CK_ARRAY_SIZE(names); i++) {
		if (strncmp(file, names[i], strlen(names[i])) == 0)
			return true;
	}
	return false;
}

/* Whose function of this name does the program call? */
enum owner { NONE, OURS, OF_C_LIBRARY, OTHERS };

static enum owner find_owner(const struct ckc_interposed *f, void *program)
{
	void *found = dlsym(program, f->name);
	Dl_info where;

	if (!found || !dladdr(found, &where) || !where.dli_fname)
		return NONE;
	if (found == f->own)
		return OURS;
	if (is_of_c_library(found, &where))
		return OF_C_LIBRARY;
	ck_debug("%s is %s's", f->name, where.dli_fname);
	return OTHERS;
}

/* --- slots of a library */

struct job {
	const struct ckc_interposed *functions[FUNCTIONS_MAX]; /* by name */
	size_t count;
	uintptr_t own; /* the base of this library */
	unsigned int failed;
};

struct library {
	uintptr_t base, relro, relro_end;
	const ElfW(Sym) * symbols;
	const char *strings;
	struct {
		const ElfW(Rela) * first;
		size_t size;
	} slots[2];
};

/* The dynamic linker has made most of these addresses absolute. */
static const void *resolve_address(const struct library *l, uintptr_t value)
{
	return (const void *)(value < l->base ? l->base + value : value);
}

static void read_dynamic(struct library *l, const ElfW(Dyn) * d)
{
	for (; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			l->symbols = resolve_address(l, d->d_un.d_ptr);
		else if (d->d_tag == DT_STRTAB)
			l->strings = resolve_address(l, d->d_un.d_ptr);
		else if (d->d_tag == DT_JMPREL)
			l->slots[0].first = resolve_address(l, d->d_un.d_ptr);
		else if (d->d_tag == DT_PLTRELSZ)
			l->slots[0].size = d->d_un.d_val;
		else if (d->d_tag == DT_RELA)
			l->slots[1].first = resolve_address(l, d->d_un.d_ptr);
		else if (d->d_tag == DT_RELASZ)
			l->slots[1].size = d->d_un.d_val;
	}
}

static struct library read_library(const struct dl_phdr_info *info)
{
	struct library l = {.base = info->dlpi_addr};

	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t at = l.base + p->p_vaddr;

		if (p->p_type == PT_DYNAMIC)
			read_dynamic(&l, (const ElfW(Dyn) *)at);
		if (p->p_type == PT_GNU_RELRO) {
			l.relro = at & ~(ck_page() - 1);
			l.relro_end = (at + p->p_memsz) & ~(ck_page() - 1);
		}
	}
	return l;
}

static int compare_names(const void *a, const void *b)
{
	const struct ckc_interposed *const *f = a, *const *g = b;

	return strcmp((*f)->name, (*g)->name);
}

/* The function that the program calls through the slot, if it is one of @job; else NULL. */
static void *function_of(const struct library *l, const ElfW(Rela) * r, const struct job *job)
{
	const ElfW(Sym) *symbol = &l->symbols[ELF64_R_SYM(r->r_info)];
	struct ckc_interposed named;
	const struct ckc_interposed *key = &named, *const * f;
	bool slot = false;

	for (size_t i = 0; i < CK_ARRAY_SIZE(slot_types); i++)
		slot |= ELF64_R_TYPE(r->r_info) == slot_types[i];
	if (!slot || r->r_addend != 0 || symbol->st_shndx != SHN_UNDEF || symbol->st_name == 0)
		return NULL;
	named.name = l->strings + symbol->st_name;
	f = bsearch(&key, job->functions, job->count, sizeof(*f), compare_names);
	return f ? (*f)->own : NULL;
}

/* The linker protects some slots after it has filled them. */
static bool write_slot(const struct library *l, void **slot, void *own)
{
	uintptr_t page = (uintptr_t)slot & ~(ck_page() - 1);
	bool protected = page >= l->relro && page < l->relro_end;

	if (protected && mprotect((void *)page, ck_page(), PROT_READ | PROT_WRITE) < 0)
		return false;
	__atomic_store_n(slot, own, __ATOMIC_RELEASE);
	if (protected)
		mprotect((void *)page, ck_page(), PROT_READ);
	return true;
}

static int rebind_library(struct dl_phdr_info *info, size_t size, void *closure)
{
	struct library l = read_library(info);
	struct job *job = closure;

	(void)size;
	if (info->dlpi_addr == job->own || !l.symbols || !l.strings)
		return 0;
	for (size_t table = 0; table < CK_ARRAY_SIZE(l.slots); table++) {
		const ElfW(Rela) *r = l.slots[table].first;

		for (size_t n = r ? l.slots[table].size / sizeof(*r) : 0; n > 0; n--, r++) {
			void *own = function_of(&l, r, job),
			     **slot = (void **)(l.base + r->r_offset);

			if (own && *slot != own && !write_slot(&l, slot, own))
				job->failed++;
		}
	}
	return 0;
}

/* --- all libraries. No name is looked up under the linker's lock, which dlopen() takes after
 * another one. */

static int count_loads(struct dl_phdr_info *info, size_t size, void *loads)
{
	(void)size;
	*(unsigned long long *)loads = info->dlpi_adds;
	return 1;
}

/* Choose the functions that the program finds in the C library. Returns how many it finds in
 * others. */
static unsigned int choose_functions(struct job *job)
{
	void *program = dlopen(NULL, RTLD_LAZY); /* RTLD_DEFAULT would begin with this library */
	unsigned int others = 0;

	for (size_t i = 0; program && i < ckc_interposed_count && job->count < FUNCTIONS_MAX; i++) {
		enum owner owner = find_owner(&ckc_interposed[i], program);

		if (owner == OF_C_LIBRARY)
			job->functions[job->count++] = &ckc_interposed[i];
		others += owner == OTHERS;
	}
	if (program)
		dlclose(program);
	qsort(job->functions, job->count, sizeof(job->functions[0]), compare_names);
	return others;
}

/* Below kernel-loader, the program's calls go through the loader's own functions
 * (loader/stubs/memory.c). */
static bool is_below_loader(void)
{
	void *program = dlopen(NULL, RTLD_LAZY);
	bool below = program && dlsym(program, "ck_half_descriptors");

	if (program)
		dlclose(program);
	return below;
}

static void rebind_all(void)
{
	struct job job = {.count = 0};
	bool first = rebound == 0;
	unsigned int others;
	Dl_info own;

	needed = !is_below_loader();
	if (!needed)
		return;
	others = choose_functions(&job);
	if (dladdr(ckc_interposed, &own))
		job.own = (uintptr_t)own.dli_fbase;
	if (job.count > 0)
		dl_iterate_phdr(rebind_library, &job);
	if (first && (others > 0 || job.failed > 0))
		ck_warn("system calls may refuse managed memory (EFAULT), because another library "
			"takes the place of the C library's read, write and others. Load "
			"cricket-client.so first (LD_PRELOAD)");
	needed = job.count > 0;
}

void ckc_rebind(void)
{
	unsigned long long loads = 0;

	if (likely(!needed))
		return;
	dl_iterate_phdr(count_loads, &loads);
	/* never wait for another thread: this one may hold the linker's lock, in a constructor */
	if (likely(loads == rebound) || atomic_flag_test_and_set(&busy))
		return;
	rebind_all();
	rebound = loads;
	atomic_flag_clear(&busy);
}

void ckc_rebind_begin(void)
{
	if (rebound == 0)
		needed = true;
	ckc_rebind();
}

#endif
