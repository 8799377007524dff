/*
 * launcher/launch/buffer.c - arrays in device memory: filling, fetching, keeping.
 *
 * Allocating costs the driver as much as several launches, so memory is kept for the next array of
 * the same size. Memory of another size is not reused: tools that look for accesses beyond an array
 * would miss them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/launch/run.h"
#include "launcher/text/base64.h"

#define SPARE_MAX ((size_t)1 << 30) /* larger pieces are freed at once */

static void spare_drop(struct ckl_runner *runner, size_t index)
{
	runner->driver.free(runner->spares[index].address);
	runner->spare_count--;
	memmove(&runner->spares[index], &runner->spares[index + 1],
		(runner->spare_count - index) * sizeof(runner->spares[0]));
}

static void memory_put(struct ckl_runner *runner, CUdeviceptr address, size_t size)
{
	if (!address)
		return;
	if (size > SPARE_MAX) {
		runner->driver.free(address);
		return;
	}
	if (runner->spare_count == CK_SPARE_WORKERS)
		spare_drop(runner, 0);
	runner->spares[runner->spare_count++] = (struct ckl_spare){address, size};
}

/* An array without elements has one byte, so that its address is one. */
static int memory_get(struct ckl_runner *runner, size_t size, CUdeviceptr *address,
		      struct ckl_fail *fail)
{
	CUresult result;

	for (size_t i = runner->spare_count; i-- > 0;) {
		if (runner->spares[i].size != size)
			continue;
		*address = runner->spares[i].address;
		runner->spare_count--;
		memmove(&runner->spares[i], &runner->spares[i + 1],
			(runner->spare_count - i) * sizeof(runner->spares[0]));
		return 0;
	}
	result = runner->driver.alloc(address, size ? size : 1);
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		while (runner->spare_count > 0)
			spare_drop(runner, 0);
		result = runner->driver.alloc(address, size ? size : 1);
	}
	if (result) {
		char what[64];

		*address = 0;
		snprintf(what, sizeof(what), "%zu bytes of device memory", size);
		return ckl_fail_cuda(fail, CK_EXIT_MEMORY, "memory", result, what);
	}
	return 0;
}

/* Map as much of a shared memory object as the array has. */
static int shm_map(const struct ckl_arg *arg, struct ckl_buffer *buffer, struct ckl_fail *fail)
{
	struct stat st;
	int fd;

	if (buffer->size == 0)
		return 0;
	fd = shm_open(arg->text, (arg->returned ? O_RDWR : O_RDONLY) | O_CLOEXEC, 0);
	if (fd < 0)
		return ckl_fail(fail, CK_EXIT_FILE, "file", "NO_FILE", "shared memory %.200s: %s",
				arg->text, strerror(errno));
	if (fstat(fd, &st) < 0 || (size_t)st.st_size < buffer->size) {
		close(fd);
		return ckl_fail_input(fail, "%s: shared memory %.200s has less than %zu bytes",
				      arg->name, arg->text, buffer->size);
	}
	buffer->shared =
		mmap(NULL, buffer->size, arg->returned ? PROT_READ | PROT_WRITE : PROT_READ,
		     MAP_SHARED, fd, 0);
	close(fd);
	if (buffer->shared == MAP_FAILED) {
		buffer->shared = NULL;
		return ckl_fail_memory(fail);
	}
	return 0;
}

/* The array's bytes in host memory, or NULL with 0 for zeroes. */
static int host_bytes(const struct ckl_arg *arg, struct ckl_buffer *buffer, const void **bytes,
		      struct ckl_fail *fail)
{
	*bytes = NULL;
	switch (arg->source) {
	case CK_FROM_BYTES:
		*bytes = arg->data;
		return 0;
	case CK_FROM_SHM:
		if (shm_map(arg, buffer, fail) < 0)
			return -EINVAL;
		*bytes = buffer->shared;
		return 0;
	case CK_FROM_TEXT:
	case CK_FROM_BASE64:
		*bytes = buffer->host = malloc(buffer->size + 1);
		if (!buffer->host)
			return ckl_fail_memory(fail);
		break;
	default:
		return 0;
	}
	if (arg->source == CK_FROM_TEXT)
		return ckl_type_read_all(arg->type, arg->text, arg->text_size, arg->count,
					 buffer->host, arg->name, fail);
	if (ckl_base64_read(arg->text, arg->text_size, buffer->host, buffer->size) < 0)
		return ckl_fail_input(fail, "%s: \"b64\" is not base64", arg->name);
	return 0;
}

/* An array that stayed from an earlier launch. */
static int kept_use(struct ckl_runner *runner, const struct ckl_arg *arg, struct ckl_buffer *buffer,
		    struct ckl_fail *fail)
{
	const struct ckl_kept *kept = ck_map_find(runner->kept, arg->text, strlen(arg->text));

	if (!kept)
		return ckl_fail_input(fail,
				      "no array %.200s was kept on the GPU, or its worker has "
				      "been replaced since",
				      arg->text);
	buffer->address = kept->address;
	buffer->size = kept->size;
	buffer->count = kept->count;
	buffer->type = kept->type;
	return 0;
}

int ckl_buffer_fill(struct ckl_runner *runner, const struct ckl_arg *arg, struct ckl_buffer *buffer,
		    struct ckl_fail *fail)
{
	CUresult result = CUDA_SUCCESS;
	const void *bytes;
	int ret;

	*buffer = (struct ckl_buffer){.type = arg->type, .count = arg->count, .size = arg->size};
	if (arg->source == CK_FROM_GPU)
		return kept_use(runner, arg, buffer, fail);
	ret = host_bytes(arg, buffer, &bytes, fail);
	if (ret == 0)
		ret = memory_get(runner, buffer->size, &buffer->address, fail);
	if (ret < 0)
		return ret;
	if (buffer->size && bytes)
		result = runner->driver.to_device(buffer->address, bytes, buffer->size);
	else if (buffer->size)
		result = runner->driver.memset(buffer->address, 0, buffer->size);
	if (!result)
		return 0;
	runner->lost = true;
	return ckl_fail_cuda(fail, CK_EXIT_LAUNCH, "copy", result, "copying to the device");
}

int ckl_buffer_fetch(struct ckl_runner *runner, struct ckl_buffer *buffer, void *to,
		     struct ckl_fail *fail)
{
	CUresult result = CUDA_SUCCESS;

	if (buffer->shared)
		to = buffer->shared;
	if (!to && !buffer->host)
		buffer->host = malloc(buffer->size + 1);
	if (!to)
		to = buffer->host;
	if (!to)
		return ckl_fail_memory(fail);
	if (buffer->size)
		result = runner->driver.to_host(to, buffer->address, buffer->size);
	if (!result) {
		if (buffer->size)
			runner->running = NULL;
		return 0;
	}
	runner->lost = true;
	if (runner->running)
		return ckl_fail_cuda(fail, CK_EXIT_LAUNCH, "exec", result, runner->running);
	return ckl_fail_cuda(fail, CK_EXIT_LAUNCH, "copy", result, "copying from the device");
}

/* Into the table under @name, in the place of one that is there. */
static bool kept_add(struct ckl_runner *runner, const char *name, const struct ckl_buffer *buffer)
{
	struct ckl_kept *kept = malloc(sizeof(*kept));

	if (!kept)
		return false;
	*kept = (struct ckl_kept){buffer->address, buffer->type, buffer->count, buffer->size};
	ckl_buffer_forget(runner, name);
	if (ck_map_insert(runner->kept, name, strlen(name), kept) == 0)
		return true;
	free(kept);
	return false;
}

void ckl_buffer_release(struct ckl_runner *runner, const struct ckl_arg *arg,
			struct ckl_buffer *buffer, bool keep)
{
	if (arg->source != CK_FROM_GPU && !(keep && kept_add(runner, arg->name, buffer)))
		memory_put(runner, buffer->address, buffer->size);
	if (buffer->shared)
		munmap(buffer->shared, buffer->size);
	free(buffer->host);
	*buffer = (struct ckl_buffer){0};
}

int ckl_buffer_forget(struct ckl_runner *runner, const char *name)
{
	struct ckl_kept *kept = ck_map_remove(runner->kept, name, strlen(name));

	if (!kept)
		return -ENOENT;
	memory_put(runner, kept->address, kept->size);
	free(kept);
	return 0;
}
