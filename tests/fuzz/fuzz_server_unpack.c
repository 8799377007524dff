/*
 * tests/fuzz/fuzz_server_unpack.c - any bytes as a compressed file of a checkpoint, with a manifest
 * that goes with it: the file that comes of it is as long as the manifest says, or there is an
 * error and it is not longer.
 *
 * The input's first two bytes are that length.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/checkpoint/compress.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/standalone.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cks_packed packed = {.name = "image"};
	struct cks_why why = {""};
	struct stat st;
	int dir = fuzz_folder_open(), fd, ret;

	if (size < 2)
		return 0;
	packed.size = (uint64_t)data[0] << 8 | data[1];
	packed.stored = size - 2;
	ck_hash(data + 2, size - 2, &packed.hash);
	fd = openat(dir, "image.zst", O_WRONLY | O_CREAT | O_EXCL, 0600);
	CK_FUZZ_CHECK(write(fd, data + 2, size - 2) == (ssize_t)size - 2);
	close(fd);
	ret = cks_unpack_file(dir, dir, &packed, &why);
	CK_FUZZ_CHECK(fstatat(dir, "image", &st, 0) == 0);
	CK_FUZZ_CHECK((uint64_t)st.st_size <= packed.size);
	CK_FUZZ_CHECK(ret == 0 ? (uint64_t)st.st_size == packed.size : why.text[0] != '\0');
	unlinkat(dir, "image", 0);
	unlinkat(dir, "image.zst", 0);
	return 0;
}
