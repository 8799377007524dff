/*
 * launcher/compile/nvrtc.c - compile in this process by NVRTC, which is opened when it is needed.
 *
 * The few declarations are from NVRTC's public reference.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/compile/compiler.h"
#include "util/log.h"

CK_LOG_DEFINE("launcher");

#define NVRTC_SUCCESS 0
#define NVRTC_ERROR_INVALID_OPTION 5
#define NVRTC_ERROR_COMPILATION 6
#define ARCHS_MAX 64
#define OPTIONS_OWN 5

typedef struct nvrtc_program *nvrtc_program;

struct nvrtc {
	int (*create)(nvrtc_program *program, const char *text, const char *name, int headers,
		      const char *const *contents, const char *const *names);
	int (*compile)(nvrtc_program program, int count, const char *const *options);
	int (*ptx_size)(nvrtc_program program, size_t *size);
	int (*ptx)(nvrtc_program program, char *text);
	int (*log_size)(nvrtc_program program, size_t *size);
	int (*log)(nvrtc_program program, char *text);
	int (*destroy)(nvrtc_program *program);
	int (*arch_count)(int *count);
	int (*archs)(int *list);
};

static bool open_library(const char *path, struct nvrtc *n)
{
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	const struct {
		void **slot;
		const char *name;
	} functions[] = {
		{(void **)&n->create, "nvrtcCreateProgram"},
		{(void **)&n->compile, "nvrtcCompileProgram"},
		{(void **)&n->ptx_size, "nvrtcGetPTXSize"},
		{(void **)&n->ptx, "nvrtcGetPTX"},
		{(void **)&n->log_size, "nvrtcGetProgramLogSize"},
		{(void **)&n->log, "nvrtcGetProgramLog"},
		{(void **)&n->destroy, "nvrtcDestroyProgram"},
		{(void **)&n->arch_count, "nvrtcGetNumSupportedArchs"},
		{(void **)&n->archs, "nvrtcGetSupportedArchs"},
	};

	for (size_t i = 0; library && i < CK_ARRAY_SIZE(functions); i++) {
		*functions[i].slot = dlsym(library, functions[i].name);
		if (!*functions[i].slot)
			return false;
	}
	if (!library)
		ck_info("%s", dlerror());
	return library;
}

/* The newest architecture it knows that the device can run; the device's if it cannot be asked. */
static unsigned choose_arch(const struct nvrtc *n, unsigned sm)
{
	int count = 0, list[ARCHS_MAX];
	unsigned best = 0;

	if (n->arch_count(&count) || count > ARCHS_MAX || n->archs(list))
		return sm;
	for (int i = 0; i < count; i++) {
		if ((unsigned)list[i] <= sm && (unsigned)list[i] > best)
			best = (unsigned)list[i];
	}
	return best ? best : sm;
}

/* The toolkit's headers, which lie in one of these places from its library. */
static bool toolkit_headers(const char *library, char *out, size_t size)
{
	static const char *const places[] = {"../include", "../../include", "../../../include"};
	char header[PATH_MAX + 32];
	const char *slash = strrchr(library, '/');

	for (size_t i = 0; slash && i < CK_ARRAY_SIZE(places); i++) {
		snprintf(out, size, "--include-path=%.*s/%s", (int)(slash - library), library,
			 places[i]);
		snprintf(header, sizeof(header), "%s/cuda_fp16.h", strchr(out, '=') + 1);
		if (access(header, R_OK) == 0)
			return true;
	}
	return false;
}

/* Our options and the user's, which come last and win. Returns how many. */
static int options_make(const struct ckl_compiler *compiler, const struct ckl_compile *in,
			unsigned sm, const char **options, char own[OPTIONS_OWN][PATH_MAX + 64])
{
	const char *slash = in->path ? strrchr(in->path, '/') : NULL;
	int count = 0;

	snprintf(own[0], sizeof(own[0]), "--gpu-architecture=compute_%u", sm);
	options[count++] = own[0];
	if (in->path) {
		snprintf(own[1], sizeof(own[1]), "--include-path=%.*s",
			 slash ? (int)(slash - in->path + 1) : 1, slash ? in->path : ".");
		options[count++] = own[1];
	}
	if (toolkit_headers(compiler->path, own[2], sizeof(own[2])))
		options[count++] = own[2];
	for (size_t i = 0; i < json_array_size(in->options); i++)
		options[count++] = json_string_value(json_array_get(in->options, i));
	return count;
}

static char *text_get(int (*size_of)(nvrtc_program, size_t *), int (*get)(nvrtc_program, char *),
		      nvrtc_program program, size_t *size)
{
	char *text;

	if (size_of(program, size) || !(text = calloc(1, *size + 1)))
		return NULL;
	if (get(program, text)) {
		free(text);
		return NULL;
	}
	*size = strlen(text);
	return text;
}

int ckl_nvrtc_compile(const struct ckl_compiler *compiler, const struct ckl_compile *in,
		      struct ckl_compiled *out)
{
	char own[OPTIONS_OWN][PATH_MAX + 64];
	const char **options = calloc(OPTIONS_OWN + json_array_size(in->options), sizeof(*options));
	nvrtc_program program = NULL;
	struct nvrtc n;
	size_t size;
	int count, result;

	*out = (struct ckl_compiled){0};
	if (!options || !open_library(compiler->path, &n)) {
		free(options);
		return -ENOENT;
	}
	count = options_make(compiler, in, choose_arch(&n, in->sm), options, own);
	result = n.create(&program, in->text, in->path ? in->path : "source.cu", 0, NULL, NULL);
	if (!result)
		result = n.compile(program, count, options);
	if (result == NVRTC_SUCCESS)
		out->ptx = text_get(n.ptx_size, n.ptx, program, &out->size);
	else if (program)
		out->log = text_get(n.log_size, n.log, program, &size);
	if (program)
		n.destroy(&program);
	free(options);
	if (out->ptx || (out->log && result == NVRTC_ERROR_COMPILATION))
		return 0;
	return result == NVRTC_ERROR_INVALID_OPTION ? -EINVAL : -EIO;
}
