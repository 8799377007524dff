/*
 * tests/e2e/warm_driver.c - a driver library that does not work, in the way that the file named by
 * WARM_DRIVER says: "999", the result of cuInit; "crash"; "hang". With "0" it has no device.
 * A process that hangs adds a letter to the file whose name ends in .hangs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cuInit(unsigned int flags);
int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *count);
int cuCtxSetCurrent(void *context);

static void hang(void)
{
	char name[4096];
	FILE *f;

	snprintf(name, sizeof(name), "%s.hangs", getenv("WARM_DRIVER"));
	f = fopen(name, "a");
	if (f) {
		fputc('x', f);
		fclose(f);
	}
	for (;;)
		pause();
}

int cuInit(unsigned int flags)
{
	FILE *f = fopen(getenv("WARM_DRIVER"), "r");
	char what[16] = "";

	(void)flags;
	if (!f || !fgets(what, sizeof(what), f))
		return 999;
	fclose(f);
	if (strcmp(what, "crash") == 0)
		abort();
	if (strcmp(what, "hang") == 0)
		hang();
	return atoi(what);
}

int cuDriverGetVersion(int *version)
{
	*version = 13000;
	return 0;
}

int cuDeviceGetCount(int *count)
{
	*count = 0;
	return 0;
}

int cuCtxSetCurrent(void *context)
{
	(void)context;
	return 0;
}
