/*
 * tests/e2e/fault_driver.c - the emulated driver with one fault: the file named by FAULT has
 * "CALL N WHAT". Its process, and the WHAT of it, for the N-th CALL since the file was made: a
 * result, which is returned at once; or "stop": the process stops before it. The file's name has
 * .met at its end then, and its content is the process id.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ino_t made; /* the file that is counted */
static unsigned int count;

static void note_met(const char *path)
{
	char name[4096];
	FILE *f = fopen(path, "w");

	fprintf(f, "%d", (int)getpid());
	fclose(f);
	snprintf(name, sizeof(name), "%s.met", path);
	rename(path, name);
}

/* Lock held. Is it this call's turn? */
static int is_due(FILE *f, const char *call, char what[16])
{
	unsigned int number;
	char named[64];
	struct stat st;

	if (fscanf(f, "%63s %u %15s", named, &number, what) != 3 || strcmp(named, call) != 0)
		return 0;
	fstat(fileno(f), &st);
	if (st.st_ino != made)
		count = 0;
	made = st.st_ino;
	return ++count == number;
}

/* The result to return; 0: none. */
static int meet_fault(const char *call)
{
	const char *path = getenv("FAULT");
	char what[16] = "0";
	FILE *f;
	int due = 0;

	pthread_mutex_lock(&lock);
	f = fopen(path, "r");
	if (f) {
		due = is_due(f, call, what);
		fclose(f);
	}
	if (due)
		note_met(path);
	pthread_mutex_unlock(&lock);
	if (due && strcmp(what, "stop") == 0)
		kill(getpid(), SIGSTOP);
	return due ? atoi(what) : 0;
}

/* All have at most six arguments, which are integers or pointers. */
#define CALL(name)                                                                                 \
	int name(long a, long b, long c, long d, long e, long f)                                   \
	{                                                                                          \
		int (*real)(long, long, long, long, long, long);                                   \
		int fault = meet_fault(#name);                                                     \
                                                                                                   \
		*(void **)&real = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), #name);    \
		return fault ? fault : real(a, b, c, d, e, f);                                     \
	}

CALL(cuMemCreate)
CALL(cuMemMap)
CALL(cuMemSetAccess)
CALL(cuMemUnmap)
CALL(cuMemRelease)
CALL(cuMemcpyDtoHAsync_v2)
CALL(cuMemcpyHtoDAsync_v2)
CALL(cuMemHostRegister_v2)
CALL(cuStreamSynchronize)
CALL(cuCheckpointProcessLock)
CALL(cuCheckpointProcessCheckpoint)
CALL(cuCheckpointProcessRestore)
CALL(cuCheckpointProcessUnlock)
