/*
 * cuda/mps.c - see cuda/mps.h.
 */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/mps.h"

/* The kernel truncates process names to 15 characters, so -control and -server look the same. */
#define CK_MPS_NAME "nvidia-cuda-mps"
#define CK_MPS_VARIABLE "CUDA_MPS_PIPE_DIRECTORY"
#define CK_ENVIRON_MAX 65536

static FILE *open_proc(const char *pid, const char *file)
{
	char path[64];

	if (snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, file) >= (int)sizeof(path))
		return NULL;
	return fopen(path, "re");
}

static bool is_mps(const char *pid)
{
	FILE *f = open_proc(pid, "comm");
	char name[32] = "";

	if (!f)
		return false;
	if (!fgets(name, sizeof(name), f))
		name[0] = '\0';
	fclose(f);
	return strncmp(name, CK_MPS_NAME, strlen(CK_MPS_NAME)) == 0;
}

/* The folder of process @pid of MPS, in @out; false: it is not known. */
static bool read_folder(const char *pid, char out[PATH_MAX])
{
	static const char name[] = CK_MPS_VARIABLE "=";
	FILE *f = open_proc(pid, "environ");
	char *text = f ? malloc(CK_ENVIRON_MAX + 1) : NULL;
	size_t size = text ? fread(text, 1, CK_ENVIRON_MAX, f) : 0;
	bool found = false;

	if (text)
		text[size] = '\0';
	for (size_t at = 0; !found && at < size; at += strlen(text + at) + 1) {
		found = strncmp(text + at, name, sizeof(name) - 1) == 0;
		if (found)
			snprintf(out, PATH_MAX, "%s", text + at + sizeof(name) - 1);
	}
	free(text);
	if (f)
		fclose(f);
	return found;
}

static bool is_of_cricket(const char *folder)
{
	const char *name = folder ? strrchr(folder, '/') : NULL;

	return name && strncmp(name + 1, CK_MPS_FOLDER, strlen(CK_MPS_FOLDER)) == 0;
}

/* Call @found with each process of MPS until it returns true; that. */
static bool search_mps(bool (*found)(const char *pid, const void *data), const void *data)
{
	struct dirent *entry;
	bool done = false;
	DIR *d = opendir("/proc");

	while (d && !done && (entry = readdir(d)))
		done = isdigit((unsigned char)entry->d_name[0]) && is_mps(entry->d_name) &&
		       found(entry->d_name, data);
	if (d)
		closedir(d);
	return done;
}

static bool is_foreign(const char *pid, const void *data)
{
	char folder[PATH_MAX];

	(void)data;
	return !read_folder(pid, folder) || !is_of_cricket(folder);
}

static bool kill_user(const char *pid, const void *wanted)
{
	char folder[PATH_MAX];

	if (read_folder(pid, folder) && strcmp(folder, wanted) == 0)
		kill((pid_t)strtol(pid, NULL, 10), SIGKILL);
	return false;
}

bool ck_cuda_mps_runs(void)
{
	return search_mps(is_foreign, NULL);
}

void ck_cuda_mps_kill(const char *folder)
{
	search_mps(kill_user, folder);
}

const char *ck_cuda_mps_folder(void)
{
	const char *folder = getenv(CK_MPS_VARIABLE);

	return is_of_cricket(folder) ? folder : NULL;
}

/* A line ends with the path; its fourth number has the flag of a socket that listens. */
static bool is_listening(const char *line, const char *path)
{
	size_t size = strcspn(line, "\n"), wanted = strlen(path);
	unsigned int flags = 0;

	return size > wanted && line[size - wanted - 1] == ' ' &&
	       strncmp(line + size - wanted, path, wanted) == 0 &&
	       sscanf(line, "%*s %*x %*x %x", &flags) == 1 && (flags & 0x10000);
}

bool ck_cuda_mps_listens(const char *folder)
{
	char line[PATH_MAX], path[PATH_MAX];
	FILE *f = fopen("/proc/net/unix", "re");
	bool found = false;

	snprintf(path, sizeof(path), "%s/control", folder);
	while (f && !found && fgets(line, sizeof(line), f))
		found = is_listening(line, path);
	if (f)
		fclose(f);
	return found;
}
