/*
 * tests/fuzz/folder.h - a folder for the files of a target, until the program ends.
 */
#ifndef CK_TESTS_FUZZ_FOLDER_H
#define CK_TESTS_FUZZ_FOLDER_H

#include <fcntl.h>
#include <unistd.h>

#include "tests/fuzz/standalone.h"

static char fuzz_folder[] = "/tmp/cricket-fuzz-XXXXXX";

static void fuzz_folder_remove(void)
{
	rmdir(fuzz_folder);
}

/* Make the folder at the first call. Returns its descriptor, the same each time. */
static int fuzz_folder_open(void)
{
	static int dir = -1;

	if (dir < 0) {
		CK_FUZZ_CHECK(mkdtemp(fuzz_folder));
		atexit(fuzz_folder_remove);
		dir = open(fuzz_folder, O_RDONLY | O_DIRECTORY);
	}
	return dir;
}

#endif
