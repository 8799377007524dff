/*
 * tests/fuzz/fuzz_server_stream.c - any bytes as what another server sends with a session: files
 * and a manifest. A file that is taken is a new one in the folder for them, as long as it said.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/checkpoint/manifest.h"
#include "server/checkpoint/stream.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/standalone.h"

#define MOST 64 /* files; the count of a worker's is about 40 */

static int dir;

static void take_file(int stream, const json_t *json)
{
	const char *name = json_string_value(json_object_get(json, "file"));
	struct cks_why why = {""};
	struct stat st;

	if (cks_stream_take_file(stream, dir, json, &why) < 0) {
		CK_FUZZ_CHECK(why.text[0]);
		return;
	}
	CK_FUZZ_CHECK(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode));
	CK_FUZZ_CHECK(st.st_size == json_integer_value(json_object_get(json, "size")));
}

static void take_manifest(const json_t *json)
{
	static struct cks_manifest m;
	struct cks_why why = {""};

	if (cks_manifest_take(json, &m, &why) == 0)
		cks_manifest_free(&m);
	else
		CK_FUZZ_CHECK(why.text[0]);
}

static int remove_file(int from, const char *name, void *data, struct cks_why *why)
{
	(void)data;
	(void)why;
	return unlinkat(from, name, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int stream = memfd_create("stream", MFD_CLOEXEC);
	struct cks_why why = {""};
	json_t *json;

	dir = fuzz_folder_open();
	CK_FUZZ_CHECK(pwrite(stream, data, size, 0) == (ssize_t)size);
	for (int i = 0; i < MOST && (json = cks_stream_read(stream, &why)); i++) {
		if (json_object_get(json, "manifest"))
			take_manifest(json_object_get(json, "manifest"));
		else
			take_file(stream, json);
		json_decref(json);
	}
	close(stream);
	CK_FUZZ_CHECK(cks_pack_each(fuzz_folder, remove_file, NULL, &why) == 0);
	return 0;
}
