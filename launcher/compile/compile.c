/*
 * launcher/compile/compile.c - compiling through the cache; see compile.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elf/ptxhead.h"
#include "launcher/compile/cache.h"
#include "launcher/compile/compiler.h"
#include "launcher/compile/includes.h"
#include "launcher/text/output_buffer.h"
#include "util/log.h"

CK_LOG_DEFINE("launcher");

#define KEY_FORMAT "1"

/* Options that nvcc takes from its environment. */
static const char *const flags[] = {"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"};

/* Whether one of them can add headers. Such headers are not followed. */
static bool flags_include(void)
{
	static const char *const options[] = {"-I", "-i", "--pre-include", "-optf", "--options"};

	for (size_t i = 0; i < CK_ARRAY_SIZE(flags) * CK_ARRAY_SIZE(options); i++) {
		const char *value = getenv(flags[i / CK_ARRAY_SIZE(options)]);

		if (value && strstr(value, options[i % CK_ARRAY_SIZE(options)]))
			return true;
	}
	return false;
}

/* The hash that names the result: it covers everything that the result depends on. */
static int key_make(const struct ckl_compile *in, const struct ckl_compiler *compiler,
		    const struct ck_hash *includes, struct ck_hash *key)
{
	char *options = in->options ? json_dumps(in->options, JSON_COMPACT) : NULL;
	char includes_text[CK_HASH_TEXT];
	struct ckl_out text = {0};
	int ret;

	ck_hash_print(includes, includes_text);
	ckl_out_format(&text, "ptx " KEY_FORMAT "\ncompute_%u\n%s\n", in->sm, includes_text);
	ckl_out_text(&text, compiler->identity);
	ckl_out_text(&text, "\n");
	ckl_out_text(&text, options ? options : "[]");
	ckl_out_text(&text, "\n");
	for (size_t i = 0; i < CK_ARRAY_SIZE(flags); i++) {
		if (getenv(flags[i])) {
			ckl_out_text(&text, flags[i]);
			ckl_out_text(&text, getenv(flags[i]));
			ckl_out_text(&text, "\n");
		}
	}
	ckl_out_bytes(&text, in->text, in->size);
	ck_hash(text.base, text.size, key);
	ret = text.failed ? -ENOMEM : 0;
	free(text.base);
	free(options);
	return ret;
}

/* saxpy of /home/me/saxpy.cu, or the kernel's name. */
static void entry_name(const struct ckl_compile *in, char name[CK_CACHE_NAME])
{
	const char *slash = in->path ? strrchr(in->path, '/') : NULL;
	const char *base = !in->path ? in->name : slash ? slash + 1 : in->path;
	const char *dot = in->path ? strrchr(base, '.') : NULL;

	if (!base)
		base = "kernel";
	ckl_cache_safe_name(base, dot && dot > base ? (size_t)(dot - base) : strlen(base), name);
}

/* The line of a compiler's log that contains the error. */
static void error_line(const char *log, char *out, size_t size)
{
	const char *at = strstr(log, "error");

	if (!at)
		at = log;
	while (at > log && at[-1] != '\n')
		at--;
	snprintf(out, size, "%.*s", (int)strcspn(at, "\n"), at);
}

static int fail_compile(struct ckl_fail *fail, char *log)
{
	char line[300];
	int ret;

	error_line(log, line, sizeof(line));
	ret = ckl_fail(fail, CK_EXIT_FILE, "compile", "COMPILE_ERROR", "%s",
		       *line ? line : "the source does not compile");
	if (!fail->log)
		fail->log = log;
	else
		free(log);
	return ret;
}

/* Use the compiler that was found. Use nvcc if NVRTC refuses a source or an option. */
static int compile_now(const struct ckl_compiler *compiler, const struct ckl_compile *in,
		       struct ckl_compiled *out)
{
	struct ckl_compiler nvcc;
	struct ckl_compiled second;
	int ret;

	if (!compiler->nvrtc)
		return ckl_nvcc_compile(compiler, in, out);
	ret = ckl_nvrtc_compile(compiler, in, out);
	if (out->ptx || strcmp(in->compiler, "auto") != 0 || !ckl_compiler_find("nvcc", &nvcc))
		return ret;
	if (ckl_nvcc_compile(&nvcc, in, &second) == 0 && (second.ptx || !out->log)) {
		free(out->log);
		*out = second;
		return 0;
	}
	free(second.log);
	return ret;
}

/* Into the cache, a compile error too. */
static void cache_compiled(struct ckl_cache *cache, const struct ck_hash *key,
			   const struct ckl_compile *in, const struct ckl_compiler *compiler,
			   const struct ckl_compiled *compiled)
{
	char name[CK_CACHE_NAME];
	struct ckl_making making = {.name = name,
				    .suffix = ".ptx",
				    .source = in->text,
				    .data = compiled->ptx,
				    .size = compiled->size,
				    .log = compiled->log};
	int ret;

	entry_name(in, name);
	making.about = json_pack("{sssssO*}", "source", in->path ? in->path : name, "compiler",
				 compiler->identity, "options", in->options);
	ret = ckl_cache_put(cache, key, &making);
	json_decref(making.about);
	if (ret < 0)
		ck_warn("kernel cache: %s: %s", cache->path, strerror(-ret));
}

/* From the cache: 0, a compile error's failure, or -ENOENT. */
static int look_up(struct ckl_cache *cache, const struct ck_hash *key, char **ptx, size_t *size,
		   struct ckl_fail *fail)
{
	struct ckl_entry entry;
	int ret = ckl_cache_get(cache, key, &entry);

	if (ret < 0)
		return ret;
	if (entry.log)
		return fail_compile(fail, entry.log);
	*ptx = entry.data;
	*size = entry.size;
	return 0;
}

static int compile_and_keep(struct ckl_cache *cache, const struct ck_hash *key, bool cached,
			    const struct ckl_compile *in, const struct ckl_compiler *compiler,
			    char **ptx, size_t *size, struct ckl_fail *fail)
{
	struct ckl_compiled compiled = {0};
	int ret = compile_now(compiler, in, &compiled);

	if (ret < 0) {
		ret = ckl_fail(fail, CK_EXIT_FILE, "compile", "COMPILER_FAILED", "%.300s: %s",
			       compiler->path,
			       ret == -EINVAL ? "an option is wrong" : strerror(-ret));
		fail->log = compiled.log;
		return ret;
	}
	if (cached)
		cache_compiled(cache, key, in, compiler, &compiled);
	if (!compiled.ptx)
		return fail_compile(fail, compiled.log);
	free(compiled.log);
	*ptx = compiled.ptx;
	*size = compiled.size;
	return 0;
}

int ckl_compile_ptx(struct ckl_cache *cache, const struct ckl_compile *in, char **ptx, size_t *size,
		    struct ckl_fail *fail)
{
	struct ckl_compiler compiler;
	struct ck_hash key;
	bool cached;
	int ret, lock;

	if (!ckl_compiler_find(in->compiler, &compiler))
		return ckl_fail(fail, CK_EXIT_FILE, "compile", "NO_COMPILER",
				"neither NVRTC nor nvcc is here to compile with");
	cached = ckl_includes_find(in->text, in->path, in->options, in->includes) == 0 && cache &&
		 !flags_include();
	if (cached && key_make(in, &compiler, &in->includes->digest, &key) < 0)
		return ckl_fail_memory(fail);
	if (cached && in->key)
		*in->key = key;
	if (!cached)
		return compile_and_keep(cache, &key, false, in, &compiler, ptx, size, fail);
	ret = look_up(cache, &key, ptx, size, fail);
	if (ret != -ENOENT || fail->exit)
		return ret;
	/* One compiles, the others wait for it and look again. */
	lock = ckl_cache_lock(cache, &key);
	ret = look_up(cache, &key, ptx, size, fail);
	if (ret == -ENOENT && !fail->exit)
		ret = compile_and_keep(cache, &key, true, in, &compiler, ptx, size, fail);
	if (lock >= 0)
		close(lock);
	return ret;
}

/* --- machine code */

/* Use the driver's linker; NULL: it makes no machine code. */
static char *link_cubin(const struct ckl_driver *driver, const char *ptx, size_t size,
			size_t *cubin_size)
{
	CUlinkState link;
	void *image;
	char *cubin = NULL;

	if (!driver->link_create || !driver->link_add || !driver->link_complete ||
	    !driver->link_destroy || driver->link_create(0, NULL, NULL, &link))
		return NULL;
	if (!driver->link_add(link, CU_JIT_INPUT_PTX, (void *)ptx, size + 1, "kernel.ptx", 0, NULL,
			      NULL) &&
	    !driver->link_complete(link, &image, cubin_size) && *cubin_size > 4 &&
	    memcmp(image, "\177ELF", 4) == 0) {
		cubin = malloc(*cubin_size + 1);
		if (cubin)
			memcpy(cubin, image, *cubin_size);
	}
	driver->link_destroy(link);
	return cubin;
}

char *ckl_compile_cubin(struct ckl_cache *cache, const struct ckl_driver *driver, const char *ptx,
			size_t size)
{
	struct ckl_making making = {.name = "kernel", .suffix = ".cubin"};
	struct {
		char what[24];
		unsigned sm, release;
		struct ck_hash ptx;
	} of = {.what = "cubin " KEY_FORMAT,
		.sm = driver->sm,
		.release = (unsigned)driver->release};
	struct ck_ptx_head head;
	struct ckl_entry entry;
	struct ck_hash key;
	char *cubin;

	if (driver->emulated || ck_ptx_head(ptx, size, &head) < 0)
		return NULL;
	ck_hash(ptx, size, &of.ptx);
	ck_hash(&of, sizeof(of), &key);
	if (ckl_cache_get(cache, &key, &entry) == 0) {
		free(entry.log);
		return entry.data;
	}
	cubin = link_cubin(driver, ptx, size, &making.size);
	if (!cubin)
		return NULL;
	making.data = cubin;
	making.about = json_pack("{sisi}", "sm", (int)driver->sm, "driver", driver->release);
	ckl_cache_put(cache, &key, &making);
	json_decref(making.about);
	return cubin;
}
