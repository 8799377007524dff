/*
 * tests/unit/server_disk.h - the file system as the store of uploads sees it: the tests choose how
 * full it is, whatever the disk of the machine has left.
 */
#ifndef CK_TESTS_UNIT_SERVER_DISK_H
#define CK_TESTS_UNIT_SERVER_DISK_H

#include <sys/statvfs.h>

#define DISK_BLOCK 4096u
#define DISK_GIB ((fsblkcnt_t)(1u << 30) / DISK_BLOCK) /* in blocks */

static struct statvfs disk = {
	.f_frsize = DISK_BLOCK, .f_blocks = 100 * DISK_GIB, .f_bavail = 50 * DISK_GIB};

/* Instead of the C library's. */
int fstatvfs(int fd, struct statvfs *out)
{
	(void)fd;
	*out = disk;
	return 0;
}

#endif
