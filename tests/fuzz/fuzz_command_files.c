/*
 * tests/fuzz/fuzz_command_files.c - any bytes as a server's reply with the client's files: refused,
 * or such that nothing is written outside of the installation's folder.
 */
#include <stdint.h>
#include <string.h>

#include "command/login/fetch.h"
#include "tests/fuzz/standalone.h"

static int slashes(const char *text)
{
	int count = 0;

	for (; *text; text++)
		count += *text == '/';
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char why[CKX_FILES_WHY];
	ck_files_res res;
	uint64_t bytes = 0;

	if (ckx_files_decode(data, size, &res, why) < 0) {
		CK_FUZZ_CHECK(memchr(why, 0, sizeof(why)));
		return 0;
	}
	CK_FUZZ_CHECK(res.status == CK_FILES_OK && !strchr(res.release, '/'));
	for (u_int i = 0; i < res.files.files_len; i++) {
		const ck_file *f = &res.files.files_val[i];
		const char *target = f->target;
		int depth = slashes(f->name);

		CK_FUZZ_CHECK(f->name[0] && f->name[0] != '/' && f->name[0] != '.' && depth <= 1);
		CK_FUZZ_CHECK(!strstr(f->name, "/.") && (target[0] || f->size > 0));
		if (strncmp(target, "../", 3) == 0) {
			CK_FUZZ_CHECK(depth == 1);
			target += 3;
		}
		CK_FUZZ_CHECK(target[0] != '.' && slashes(target) == 0);
		bytes += f->size;
	}
	CK_FUZZ_CHECK(bytes <= CK_FILES_BYTES_MAX);
	xdr_free((xdrproc_t)xdr_ck_files_res, &res);
	return 0;
}
