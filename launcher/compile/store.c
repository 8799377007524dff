/*
 * launcher/compile/store.c - look at the kernel cache and fill it; see cache.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "launcher/compile/cache.h"
#include "launcher/compile/compile.h"
#include "launcher/request/reply.h"
#include "launcher/text/file.h"

/* A line of the list: last use, bytes, folder, and the name of the source. */
static void list_one(struct ckl_cache *cache, const struct ckl_listed *listed)
{
	const char *source, *what = "damaged";
	struct ckl_entry entry;
	json_t *meta = NULL;
	char when[32];
	struct tm tm;

	if (ckl_cache_check(cache, listed->name, &entry, &meta) == 0) {
		source = json_string_value(json_object_get(meta, "source"));
		what = entry.log ? "does not compile" : source ? source : "machine code";
	}
	localtime_r(&listed->used.tv_sec, &tm);
	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	printf("%s %10llu  %s  %s\n", when, (unsigned long long)listed->size, listed->name, what);
	json_decref(meta);
	free(entry.data);
	free(entry.log);
}

/* Removes damaged entries; an exit code. */
static int verify_entries(struct ckl_cache *cache, const struct ckl_listed *list, long count)
{
	struct ckl_entry entry;
	long bad = 0;

	for (long i = 0; i < count; i++) {
		if (ckl_cache_check(cache, list[i].name, &entry, NULL) < 0) {
			printf("damaged, removed: %s\n", list[i].name);
			ckl_cache_remove(cache, list[i].name);
			bad++;
			continue;
		}
		free(entry.data);
		free(entry.log);
	}
	printf("%ld entries, %ld damaged\n", count, bad);
	return bad ? CK_EXIT_FILE : CK_EXIT_OK;
}

static int print_fail(struct ckl_fail *fail)
{
	struct ckl_out out = {0};
	int exit = fail->exit;

	ckl_reply_fail(&out, false, 0, fail);
	fwrite(out.base, 1, out.size, stdout);
	free(out.base);
	ckl_fail_clear(fail);
	return exit;
}

/* The log says why. */
static int no_cache(void)
{
	struct ckl_fail fail = {0};

	ckl_fail(&fail, CK_EXIT_FILE, "file", "NO_CACHE",
		 "there is no folder for the kernel cache");
	return print_fail(&fail);
}

int ckl_store_command(const struct ckl_options *options)
{
	struct ckl_cache *cache = ckl_cache_open(options->cache_dir, options->cache_size);
	struct ckl_listed *list = NULL;
	int ret = CK_EXIT_OK;
	long count;

	if (!cache)
		return no_cache();
	count = ckl_cache_list(cache, &list);
	if (strcmp(options->cache_command, "verify") == 0)
		ret = verify_entries(cache, list, count);
	else if (strcmp(options->cache_command, "prune") == 0)
		printf("%ld entries removed\n", ckl_cache_evict(cache, options->cache_size));
	else
		for (long i = 0; i < count; i++)
			list_one(cache, &list[i]);
	free(list);
	ckl_cache_close(cache);
	return count < 0 ? CK_EXIT_FILE : ret;
}

/* The entry as lean's CachedKernel has it, by the names that its files have. */
static int print_entry(struct ckl_cache *cache, const struct ck_hash *key, struct ckl_fail *fail)
{
	char hash[CK_HASH_TEXT], folder[CK_HASH_TEXT + 8];
	json_t *meta = NULL, *printed;
	struct ckl_entry entry;
	const char *file = NULL;

	ck_hash_print(key, hash);
	snprintf(folder, sizeof(folder), "kernel_%s", hash);
	if (ckl_cache_check(cache, folder, &entry, &meta) == 0)
		file = json_string_value(json_object_get(meta, "file"));
	free(entry.data);
	free(entry.log);
	if (!file) {
		json_decref(meta);
		return ckl_fail(fail, CK_EXIT_FILE, "compile", "NOT_CACHED",
				"the kernel cache has not kept it");
	}
	printed = json_pack(
		"{sssoso}", "hash", hash, "source",
		json_sprintf("%s/%s/%.*s.cu", cache->path, folder, (int)strcspn(file, "."), file),
		"ptx", json_sprintf("%s/%s/%s", cache->path, folder, file));
	json_dumpf(printed, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(printed);
	json_decref(meta);
	return 0;
}

int ckl_store_compile(const struct ckl_options *options)
{
	struct ckl_cache *cache = ckl_cache_open(options->cache_dir, options->cache_size);
	struct ckl_includes includes = {0};
	struct ck_hash key = {0}, none = {0};
	bool stream = ckl_file_is_stream(options->compile_path);
	struct ckl_compile in = {.path = stream ? NULL : options->compile_path,
				 .name = options->compile_name,
				 .options = json_object_get(options->defaults, "options"),
				 .compiler = options->compiler,
				 .sm = options->compile_sm,
				 .key = &key,
				 .includes = &includes};
	char *text = NULL, *ptx = NULL;
	struct ckl_fail fail = {0};
	size_t size;
	int ret;

	if (!cache)
		return no_cache();
	ret = stream ? ckl_file_read_stream(options->compile_path, &text, &in.size)
		     : ckl_file_read(AT_FDCWD, in.path, &text, &in.size, NULL);
	in.text = text;
	if (ret < 0)
		ckl_fail(&fail, CK_EXIT_FILE, "file", "NO_FILE", "%.300s: %s",
			 options->compile_path, strerror(-ret));
	else
		ckl_compile_ptx(cache, &in, &ptx, &size, &fail);
	if (!fail.exit && ck_hash_equal(&key, &none))
		ckl_fail(&fail, CK_EXIT_FILE, "compile", "NOT_CACHED",
			 "the files that the source includes cannot be determined without a "
			 "compiler");
	ret = fail.exit || print_entry(cache, &key, &fail) < 0 ? print_fail(&fail) : CK_EXIT_OK;
	ckl_includes_free(&includes);
	ckl_cache_close(cache);
	free(text);
	free(ptx);
	return ret;
}
