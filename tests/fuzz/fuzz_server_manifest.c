/*
 * tests/fuzz/fuzz_server_manifest.c - any text as the manifest of a checkpoint: refused with a
 * reason, or such that no file outside of its folder is named.
 */
#include <string.h>

#include "server/checkpoint/manifest.h"
#include "tests/fuzz/standalone.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cks_manifest m;
	struct cks_why why = {""};

	if (cks_manifest_parse((const char *)data, size, &m, &why) < 0) {
		CK_FUZZ_CHECK(why.text[0] && !m.threads && !m.images);
		return 0;
	}
	CK_FUZZ_CHECK(m.pid > 0 && m.outside.count <= CK_EXTERNAL_FDS_MAX &&
		      m.gpu.count <= CK_MANIFEST_DEVICES);
	for (size_t i = 0; i < m.thread_count; i++)
		CK_FUZZ_CHECK(m.threads[i] > 0);
	for (size_t i = 0; i < m.image_count; i++)
		CK_FUZZ_CHECK(!strchr(m.images[i].name, '/') && m.images[i].name[0] != '.');
	for (size_t i = 0; i < m.outside.count; i++)
		CK_FUZZ_CHECK(m.outside.files[i].role < CK_EXTERNAL_FDS_ROLES &&
			      memchr(m.outside.files[i].id, 0, CK_EXTERNAL_FDS_ID));
	for (size_t i = 0; i < m.file.count; i++)
		CK_FUZZ_CHECK(m.file.pieces[i].slot == CK_MEMORY_ZERO ||
			      m.file.pieces[i].slot < m.file.slots);
	cks_manifest_fits(&m.gpu, &m.gpu, &why);
	cks_manifest_free(&m);
	return 0;
}
