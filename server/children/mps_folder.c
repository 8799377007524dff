/*
 * server/children/mps_folder.c - see mps_folder.h.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda/mps.h"
#include "server/children/mps.h"
#include "server/children/mps_folder.h"
#include "util/util.h"

#define CK_FOLDERS 10  /* names that are tried */
#define CK_BASE_MAX 48 /* of the path that the folders are in */

/* Where the folders are: systemd's folder of the unit, that of the user, /run or /tmp. */
static const char *find_base(void)
{
	const char *const bases[] = {getenv("RUNTIME_DIRECTORY"), getenv("XDG_RUNTIME_DIR"),
				     "/run"};

	for (size_t i = 0; i < CK_ARRAY_SIZE(bases); i++) {
		if (bases[i] && *bases[i] == '/' && strlen(bases[i]) <= CK_BASE_MAX &&
		    access(bases[i], W_OK | X_OK) == 0)
			return bases[i];
	}
	return "/tmp";
}

void cks_mps_folder_remove(const char *path)
{
	int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *list = folder >= 0 ? fdopendir(folder) : NULL;
	struct dirent *entry;

	while (list && (entry = readdir(list)))
		unlinkat(folder, entry->d_name, 0); /* "." and ".." stay */
	if (list)
		closedir(list);
	rmdir(path);
}

/* Leftovers of killed servers: NVIDIA's server outlives its daemon. */
static void clear_base(const char *base)
{
	DIR *list = opendir(base);
	char path[CK_MPS_PATH];
	struct dirent *entry;
	int pid = 0;

	while (list && (entry = readdir(list))) {
		if (sscanf(entry->d_name, CK_MPS_FOLDER "%d-", &pid) != 1 || pid <= 1 ||
		    kill(pid, 0) == 0 || errno != ESRCH ||
		    snprintf(path, sizeof(path), "%s/%s", base, entry->d_name) >= (int)sizeof(path))
			continue;
		ck_cuda_mps_kill(path);
		cks_mps_folder_remove(path);
	}
	if (list)
		closedir(list);
}

int cks_mps_folder_make(uint32_t *number, char *out, size_t size)
{
	const char *base = find_base();
	uint32_t name;

	if ((*number)++ == 0)
		clear_base(base);
	for (int i = 0; i < CK_FOLDERS; i++) {
		/* others can make files in /tmp, but not of all these names */
		if (getrandom(&name, sizeof(name), 0) != sizeof(name))
			return -EIO;
		snprintf(out, size, "%s/" CK_MPS_FOLDER "%d-%08x", base, (int)getpid(), name);
		if (mkdir(out, 0700) == 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	return -errno;
}
