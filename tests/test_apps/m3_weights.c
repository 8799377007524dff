/*
 * m3_weights.c - memory shared by name (M3): one process makes a region and fills it, a second one,
 * this program again, opens it by its name and reads what is there.
 *
 * Each may run on the broker's host, with a driver of its own, or through cricket-client.so.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "m3/m3.h"
#include "tests/test_apps/driver_api.h"

#define COUNT 1000000u

static float host[COUNT];

static void check(int status, const char *what)
{
	if (status == M3_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, m3_strerror(status));
	exit(1);
}

static void check_cu(CUresult err, const char *what)
{
	if (err == CUDA_SUCCESS)
		return;
	fprintf(stderr, "%s: CUDA error %d\n", what, (int)err);
	exit(1);
}

static void use_device(void)
{
	CUcontext context;

	check_cu(cu.cuInit(0), "cuInit");
	check_cu(cu.cuDevicePrimaryCtxRetain(&context, 0), "a context");
	check_cu(cu.cuCtxSetCurrent(context), "a context");
}

/* Open it for reading; the other process can go on writing, but not we. */
static int second(const char *name)
{
	m3_client *client;
	m3_region *region;
	m3_device_ptr at;
	double sum = 0;

	use_device();
	check(m3_connect(NULL, &client), "m3_connect");
	check(m3_open(client, name, M3_READ, &region), "m3_open");
	check(m3_map(region, 0, M3_READ, 0, &at), "m3_map");
	check_cu(cu.cuMemcpyDtoH_v2(host, at, sizeof(host)), "reading");
	for (unsigned int i = 0; i < COUNT; i++)
		sum += host[i];
	printf("second: %u floats, their sum is %.0f\n", COUNT, sum);
	check(m3_release(region), "m3_release");
	m3_disconnect(client);
	return 0;
}

static int run_second(const char *program, const char *name)
{
	pid_t pid;
	int status = 1;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", program, name, NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
	m3_alloc_req wanted = {.bytes = sizeof(host), .flags = M3_EXCL};
	m3_client *client;
	m3_region *region;
	char name[32];
	int status;

	if (driver_open() < 0)
		return 1;
	if (argc > 1)
		return second(argv[1]);
	use_device();
	check(m3_connect(NULL, &client), "m3_connect");
	snprintf(name, sizeof(name), "weights-%d", (int)getpid());
	wanted.mem_id = name;
	check(m3_alloc(client, &wanted, &region), "m3_alloc"); /* and mapped for device 0 */
	for (unsigned int i = 0; i < COUNT; i++)
		host[i] = (float)(i % 100);
	check_cu(cu.cuMemcpyHtoD_v2(m3_region_ptr(region), host, sizeof(host)), "writing");
	check_cu(cu.cuCtxSynchronize(), "writing");
	printf("first: a region of %llu bytes\n", (unsigned long long)m3_region_size(region));
	status = run_second(argv[0], name);
	check(m3_release(region), "m3_release"); /* the last one: the memory goes */
	m3_disconnect(client);
	return status;
}
