/*
 * server/supervisor/unlink.c - remove a file that may be another server's by now.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "server/supervisor/listeners.h"

void cks_unlink_own(const char *path, const struct stat *own)
{
	struct stat now;

	if (stat(path, &now) == 0 && now.st_ino == own->st_ino && now.st_dev == own->st_dev)
		unlink(path);
}
