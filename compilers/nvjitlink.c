/*
 * compilers/nvjitlink.c - nvJitLink, whose result is PTX.
 *
 * cuda-bindings, through which Numba and cuda.core link, looks for each function in the whole
 * process first, and so finds these. nvJitLink itself links LTO-IR, and writes the result as PTX if
 * it is asked to. The driver's linker joins this and the other inputs. If it refuses one, such as
 * machine code, nvJitLink links alone.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compilers/library.h"
#include "cuda/types.h"

#define FUNCTION(name) ((__typeof__(&(name)))ck_compiler_function("libnvJitLink.so", #name))

/* As nvJitLink.h has them. */
enum { SUCCESS = 0, ERROR_INVALID_INPUT = 3, ERROR_INTERNAL = 6 };
enum { INPUT_CUBIN = 1, INPUT_PTX, INPUT_LTOIR, INPUT_FATBIN, INPUT_OBJECT, INPUT_LIBRARY };

#pragma GCC visibility push(default)
int nvJitLinkCreate(void **handle, uint32_t count, const char **options);
int nvJitLinkDestroy(void **handle);
int nvJitLinkAddData(void *handle, int type, const void *data, size_t size, const char *name);
int nvJitLinkAddFile(void *handle, int type, const char *path);
int nvJitLinkComplete(void *handle);
int nvJitLinkGetLinkedCubinSize(void *handle, size_t *size);
int nvJitLinkGetLinkedCubin(void *handle, void *code);
#pragma GCC visibility pop
/* Of the library itself. */
int nvJitLinkGetLinkedPtxSize(void *handle, size_t *size);
int nvJitLinkGetLinkedPtx(void *handle, char *text);

/* Of the driver in this process. */
CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values,
			 CUlinkState *state);
CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
			  const char *name, unsigned int count, CUjit_option *options,
			  void **values);
CUresult cuLinkComplete(CUlinkState state, void **code, size_t *size);
CUresult cuLinkDestroy(CUlinkState state);

struct input {
	struct input *next;
	CUjitInputType type;
	size_t size;
	char data[];
};

struct link {
	struct link *next;
	void *handle; /* the library's */
	bool lto;     /* the library writes PTX */
	bool for_library; /* it has an input, such as LTO-IR, that is not for the driver */
	struct input *inputs; /* for the driver, the last one first */
	char *code;	      /* the result; NULL: the library's */
	size_t size;
};

static struct {
	pthread_mutex_t lock;
	struct link *first;
} links = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A link is used by one thread at a time. NULL: the program has asked for PTX itself. */
static struct link *find_link(const void *handle, bool remove)
{
	struct link **at = &links.first, *found;

	pthread_mutex_lock(&links.lock);
	while (*at && (*at)->handle != handle)
		at = &(*at)->next;
	found = *at;
	if (found && remove)
		*at = found->next;
	pthread_mutex_unlock(&links.lock);
	return found;
}

static void free_link(struct link *link)
{
	struct input *next;

	for (struct input *i = link ? link->inputs : NULL; i; i = next) {
		next = i->next;
		free(i);
	}
	if (link)
		free(link->code);
	free(link);
}

/* An input of @size bytes, which the caller fills. */
static struct input *add_input(struct link *link, CUjitInputType type, size_t size)
{
	struct input *input = size < SIZE_MAX / 2 ? calloc(1, sizeof(*input) + size + 1) : NULL;

	if (!input)
		return NULL;
	*input = (struct input){.next = link->inputs, .type = type, .size = size};
	link->inputs = input;
	return input;
}

static bool has_option(uint32_t count, const char **options, const char *wanted)
{
	for (uint32_t i = 0; i < count; i++) {
		if (options[i] && strcmp(options[i], wanted) == 0)
			return true;
	}
	return false;
}

/* The library's own function, which also writes PTX if @ptx. */
static int create(void **handle, uint32_t count, const char **options, bool ptx)
{
	__typeof__(&nvJitLinkCreate) function = FUNCTION(nvJitLinkCreate);
	const char **all = calloc((size_t)count + 1, sizeof(*all));
	int result = ERROR_INTERNAL;

	if (all && count > 0)
		memcpy(all, options, count * sizeof(*all));
	if (all && function) {
		all[count] = "-ptx";
		result = function(handle, count + ptx, all);
	}
	free(all);
	return result;
}

int nvJitLinkCreate(void **handle, uint32_t count, const char **options)
{
	bool own = !has_option(count, options, "-ptx");
	bool lto = has_option(count, options, "-lto");
	struct link *link = calloc(1, sizeof(*link));
	int result = link ? create(handle, count, options, own && lto) : ERROR_INTERNAL;

	if (result != SUCCESS || !own) {
		free(link);
		return result;
	}
	pthread_mutex_lock(&links.lock);
	*link = (struct link){.next = links.first, .handle = *handle, .lto = lto};
	links.first = link;
	pthread_mutex_unlock(&links.lock);
	return SUCCESS;
}

int nvJitLinkDestroy(void **handle)
{
	__typeof__(&nvJitLinkDestroy) function = FUNCTION(nvJitLinkDestroy);

	if (handle)
		free_link(find_link(*handle, true));
	return function ? function(handle) : ERROR_INTERNAL;
}

/* --- inputs */

/* The driver's number for @type; -1: only the library reads it. */
static int type_of_driver(int type)
{
	static const int types[] = {
		[INPUT_CUBIN] = CU_JIT_INPUT_CUBIN,	 [INPUT_PTX] = CU_JIT_INPUT_PTX,
		[INPUT_FATBIN] = CU_JIT_INPUT_FATBINARY, [INPUT_OBJECT] = CU_JIT_INPUT_OBJECT,
		[INPUT_LIBRARY] = CU_JIT_INPUT_LIBRARY,
	};

	return type < INPUT_CUBIN || type > INPUT_LIBRARY || type == INPUT_LTOIR ? -1 : types[type];
}

int nvJitLinkAddData(void *handle, int type, const void *data, size_t size, const char *name)
{
	__typeof__(&nvJitLinkAddData) function = FUNCTION(nvJitLinkAddData);
	struct link *link = find_link(handle, false);
	int own = type_of_driver(type);

	if (!function)
		return ERROR_INTERNAL;
	if (link && own < 0)
		link->for_library = true;
	if (link && own >= 0 && data) {
		struct input *input = add_input(link, (CUjitInputType)own, size);

		if (!input)
			return ERROR_INTERNAL;
		memcpy(input->data, data, size);
		if (link->lto)
			return SUCCESS;
	}
	return function(handle, type, data, size, name);
}

/* Bytes of the file @path, which the caller frees; NULL: it cannot be read. */
static char *read_file(const char *path, size_t *size)
{
	FILE *file = path ? fopen(path, "rb") : NULL;
	char *data = NULL;
	long end;

	if (file && fseek(file, 0, SEEK_END) == 0 && (end = ftell(file)) > 0) {
		rewind(file);
		*size = (size_t)end;
		data = malloc(*size);
		if (data && fread(data, 1, *size, file) != *size) {
			free(data);
			data = NULL;
		}
	}
	if (file)
		fclose(file);
	return data;
}

int nvJitLinkAddFile(void *handle, int type, const char *path)
{
	__typeof__(&nvJitLinkAddFile) function = FUNCTION(nvJitLinkAddFile);
	size_t size;
	char *data = find_link(handle, false) ? read_file(path, &size) : NULL;
	int result;

	if (!data)
		return function ? function(handle, type, path) : ERROR_INTERNAL;
	result = nvJitLinkAddData(handle, type, data, size, path);
	free(data);
	return result;
}

/* --- the result */

/* The library's result for LTO-IR is an input for the driver. */
static int take_ptx(struct link *link)
{
	__typeof__(&nvJitLinkGetLinkedPtxSize) get_size = FUNCTION(nvJitLinkGetLinkedPtxSize);
	__typeof__(&nvJitLinkGetLinkedPtx) get = FUNCTION(nvJitLinkGetLinkedPtx);
	struct input *input;
	size_t size;
	int result = get && get_size ? get_size(link->handle, &size) : ERROR_INTERNAL;

	if (result != SUCCESS)
		return result;
	input = add_input(link, CU_JIT_INPUT_PTX, size);
	return input ? get(link->handle, input->data) : ERROR_INTERNAL;
}

static bool set_code(struct link *link, const void *code, size_t size)
{
	link->code = malloc(size);
	if (link->code)
		memcpy(link->code, code, size);
	link->size = size;
	return link->code != NULL;
}

/* Whether the driver links the inputs. */
static bool join_inputs(struct link *link)
{
	const struct input *first = link->inputs;
	CUresult result = CUDA_SUCCESS;
	CUlinkState state;
	size_t size = 0;
	void *code;
	bool done;

	if (!first)
		return false;
	if (first->type == CU_JIT_INPUT_PTX && !first->next)
		return set_code(link, first->data, strlen(first->data) + 1);
	if (cuLinkCreate_v2(0, NULL, NULL, &state) != CUDA_SUCCESS)
		return false;
	for (struct input *i = link->inputs; i && result == CUDA_SUCCESS; i = i->next)
		result = cuLinkAddData_v2(state, i->type, i->data,
					  i->size + (i->type == CU_JIT_INPUT_PTX), "", 0, NULL,
					  NULL);
	done = result == CUDA_SUCCESS && cuLinkComplete(state, &code, &size) == CUDA_SUCCESS &&
	       set_code(link, code, size);
	cuLinkDestroy(state);
	return done;
}

int nvJitLinkComplete(void *handle)
{
	__typeof__(&nvJitLinkComplete) function = FUNCTION(nvJitLinkComplete);
	struct link *link = find_link(handle, false);
	bool ptx = link && link->lto;
	int result = function ? SUCCESS : ERROR_INTERNAL;

	if (function && (!ptx || link->for_library))
		result = function(handle);
	if (result == SUCCESS && ptx && link->for_library)
		result = take_ptx(link);
	if (result == SUCCESS && link && !join_inputs(link) && ptx)
		result = ERROR_INVALID_INPUT;
	return result;
}

int nvJitLinkGetLinkedCubinSize(void *handle, size_t *size)
{
	__typeof__(&nvJitLinkGetLinkedCubinSize) function = FUNCTION(nvJitLinkGetLinkedCubinSize);
	const struct link *link = find_link(handle, false);

	if (!link || !link->code || !size)
		return function ? function(handle, size) : ERROR_INTERNAL;
	*size = link->size;
	return SUCCESS;
}

int nvJitLinkGetLinkedCubin(void *handle, void *code)
{
	__typeof__(&nvJitLinkGetLinkedCubin) function = FUNCTION(nvJitLinkGetLinkedCubin);
	const struct link *link = find_link(handle, false);

	if (!link || !link->code || !code)
		return function ? function(handle, code) : ERROR_INTERNAL;
	memcpy(code, link->code, link->size);
	return SUCCESS;
}
