/*
 * command/check/probe.c - see check.h.
 *
 * The client's messages are for its log descriptor, and the result is for another one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "command/check/check.h"
#include "command/config/client_library.h"
#include "command/config/command.h"
#include "cuda/types.h"
#include "util/until.h"

#define COPY ((size_t)32 << 20)
#define WARM ((size_t)1 << 20) /* the first copy opens connections */

static struct driver {
	CUresult (*init)(unsigned int flags);
	CUresult (*version)(int *version);
	CUresult (*count)(int *count);
	CUresult (*name)(char *name, int size, CUdevice device);
	CUresult (*retain)(CUcontext *context, CUdevice device);
	CUresult (*set)(CUcontext context);
	CUresult (*info)(size_t *free, size_t *total);
	CUresult (*alloc)(CUdeviceptr *out, size_t size);
	CUresult (*up)(CUdeviceptr to, const void *from, size_t size);
	CUresult (*down)(void *to, CUdeviceptr from, size_t size);
	CUresult (*wait)(void);
} driver;

static const char *const names[] = {"cuInit",
				    "cuDriverGetVersion",
				    "cuDeviceGetCount",
				    "cuDeviceGetName",
				    "cuDevicePrimaryCtxRetain",
				    "cuCtxSetCurrent",
				    "cuMemGetInfo_v2",
				    "cuMemAlloc_v2",
				    "cuMemcpyHtoD_v2",
				    "cuMemcpyDtoH_v2",
				    "cuCtxSynchronize"};

_Static_assert(sizeof(names) == sizeof(driver), "a name for each function");

static double get_seconds(void)
{
	return (double)ck_now_ns() / 1e9;
}

static CUresult add_device(json_t *list, CUdevice device)
{
	char name[256] = "";
	size_t free = 0, total = 0;
	CUcontext context;
	CUresult err = driver.name(name, sizeof(name), device);

	if (!err)
		err = driver.retain(&context, device);
	if (!err)
		err = driver.set(context);
	if (!err)
		err = driver.info(&free, &total);
	if (!err)
		json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "name", name, "memory",
						      (json_int_t)total, "free", (json_int_t)free));
	return err;
}

/* Time @size bytes to the current device, and back. */
static CUresult time_copy(CUdeviceptr memory, char *bytes, size_t size, double *up, double *down)
{
	double begin = get_seconds();
	CUresult err = driver.up(memory, bytes, size);

	if (!err)
		err = driver.wait();
	*up = (double)size / (get_seconds() - begin);
	begin = get_seconds();
	if (!err)
		err = driver.down(bytes, memory, size);
	*down = (double)size / (get_seconds() - begin);
	return err;
}

static CUresult measure_bandwidth(json_t *result)
{
	char *bytes = malloc(COPY);
	double up = 0, down = 0;
	CUdeviceptr memory;
	CUresult err = bytes ? driver.alloc(&memory, COPY) : CUDA_ERROR_OUT_OF_MEMORY;

	for (size_t i = 0; !err && i < COPY; i++)
		bytes[i] = (char)(random() >> 8); /* so that compression does not help */
	if (!err)
		err = time_copy(memory, bytes, WARM, &up, &down);
	if (!err)
		err = time_copy(memory, bytes, COPY, &up, &down);
	if (!err) {
		json_object_set_new(result, "up", json_real(up));
		json_object_set_new(result, "down", json_real(down));
	}
	free(bytes);
	return err;
}

static CUresult probe_driver(json_t *result)
{
	json_t *devices = json_array();
	int version = 0, count = 0;
	CUresult err = driver.init(0);

	json_object_set_new(result, "devices", devices);
	if (!err)
		err = driver.version(&version);
	if (!err)
		err = driver.count(&count);
	json_object_set_new(result, "driver", json_integer(version));
	for (int i = count - 1; !err && i >= 0; i--)
		err = add_device(devices, i);
	return !err && count > 0 ? measure_bandwidth(result) : err;
}

/* In the child: say the result to @out. */
static _Noreturn void run_probe(const struct ckx_server *server, int out, int log)
{
	json_t *result = json_object();
	char fd[16];

	snprintf(fd, sizeof(fd), "%d", log);
	setenv("CRICKET_LOG_FD", fd, 1);
	setenv("CRICKET_LOG", "error", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	if (ckx_client_library_load(server, names, sizeof(names) / sizeof(names[0]), &driver) < 0)
		_exit(1);
	json_object_set_new(result, "error", json_integer(probe_driver(result)));
	json_dumpfd(result, out, JSON_COMPACT);
	_exit(0);
}

/* The log as one line: without the head of each line. */
static void trim_log(char *text)
{
	char *error = strstr(text, "ERROR: ");

	if (error)
		memmove(text, error + 7, strlen(error + 7) + 1);
	text[strcspn(text, "\n")] = '\0';
}

json_t *ckx_probe(const struct ckx_server *server)
{
	int out[2], log[2];
	char said[1024];
	json_t *result;
	ssize_t n;
	pid_t pid;

	if (pipe(out) < 0 || pipe(log) < 0)
		return NULL;
	pid = fork();
	if (pid == 0)
		run_probe(server, out[1], log[1]);
	close(out[1]);
	close(log[1]);
	result = json_loadfd(out[0], JSON_DISABLE_EOF_CHECK, NULL);
	n = read(log[0], said, sizeof(said) - 1);
	said[n > 0 ? n : 0] = '\0';
	close(out[0]);
	close(log[0]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	trim_log(said);
	json_object_set_new(result, "said", json_string(said));
	return result;
}
