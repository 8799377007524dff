/*
 * libcuda/coredump.c - settings of core dumps of the GPU: stored and reported; no dumps are made.
 *
 * A dump would hold the memory of another process, or of one without a GPU. So a program may read
 * the settings and choose files and contents, as debuggers' helpers do at start-up; switching dumps
 * on is refused. A context's settings are those of the process, since they have no effect.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gen/api.h"
#include "libcuda/locks.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("driver");

#define NAME_SIZE 1024 /* CUDA: 1023 characters */

static struct ck_mutex settings_lock = CK_MUTEX(CK_RANK_COREDUMP);
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool enabled, user_trigger; /* stay false */
static bool trigger_host = true, lightweight;
static unsigned int flags;
static char file[NAME_SIZE], pipe_name[NAME_SIZE];

static struct setting {
	void *value;
	size_t size;
} settings[CU_COREDUMP_MAX] = {
	[CU_COREDUMP_ENABLE_ON_EXCEPTION] = {&enabled, sizeof(enabled)},
	[CU_COREDUMP_TRIGGER_HOST] = {&trigger_host, sizeof(trigger_host)},
	[CU_COREDUMP_LIGHTWEIGHT] = {&lightweight, sizeof(lightweight)},
	[CU_COREDUMP_ENABLE_USER_TRIGGER] = {&user_trigger, sizeof(user_trigger)},
	[CU_COREDUMP_FILE] = {file, sizeof(file)},
	[CU_COREDUMP_PIPE] = {pipe_name, sizeof(pipe_name)},
	[CU_COREDUMP_GENERATION_FLAGS] = {&flags, sizeof(flags)},
};

static void set_names(void)
{
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	snprintf(file, sizeof(file), "core.cuda.%s.%d", host, (int)getpid());
	snprintf(pipe_name, sizeof(pipe_name), "corepipe.cuda.%s.%d", host, (int)getpid());
}

static struct setting *setting_of(CUcoredumpSettings attrib)
{
	if ((unsigned int)attrib == 0 || (unsigned int)attrib >= CU_COREDUMP_MAX)
		return NULL;
	pthread_once(&once, set_names);
	return &settings[attrib];
}

static bool is_text(const struct setting *s)
{
	return s->size == NAME_SIZE;
}

/* With no @value, only how large it is. */
static CUresult get_setting(CUcoredumpSettings attrib, void *value, size_t *size)
{
	struct setting *s = setting_of(attrib);
	size_t room;

	if (!s || !size)
		return CUDA_ERROR_INVALID_VALUE;
	room = *size;
	*size = s->size;
	if (!value)
		return CUDA_SUCCESS;
	if (room < s->size && !is_text(s))
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(&settings_lock);
	memcpy(value, s->value, ck_min(room, s->size));
	ck_unlock(&settings_lock);
	if (is_text(s) && room > 0)
		((char *)value)[ck_min(room, s->size) - 1] = '\0';
	return CUDA_SUCCESS;
}

static CUresult set_setting(CUcoredumpSettings attrib, const void *value, size_t *size)
{
	struct setting *s = setting_of(attrib);

	if (!s || !size)
		return CUDA_ERROR_INVALID_VALUE;
	if (!value) {
		*size = s->size;
		return CUDA_SUCCESS;
	}
	if (is_text(s) ? *size > s->size || strnlen(value, *size) == s->size : *size < s->size)
		return CUDA_ERROR_INVALID_VALUE;
	if ((attrib == CU_COREDUMP_ENABLE_ON_EXCEPTION ||
	     attrib == CU_COREDUMP_ENABLE_USER_TRIGGER) &&
	    *(const bool *)value) {
		ck_warn("core dumps of the GPU are not made");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	ck_lock(&settings_lock);
	if (is_text(s))
		snprintf(s->value, s->size, "%.*s", (int)strnlen(value, *size),
			 (const char *)value);
	else
		memcpy(s->value, value, s->size);
	ck_unlock(&settings_lock);
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuCoredumpGetAttribute(CUcoredumpSettings attrib, void *value, size_t *size)
{
	CUdevice device;
	CUresult err = cuCtxGetDevice(&device); /* is there a context? */

	return err ? err : get_setting(attrib, value, size);
}

CK_EXPORT CUresult cuCoredumpGetAttributeGlobal(CUcoredumpSettings attrib, void *value,
						size_t *size)
{
	return get_setting(attrib, value, size);
}

CK_EXPORT CUresult cuCoredumpSetAttribute(CUcoredumpSettings attrib, void *value, size_t *size)
{
	CUdevice device;
	CUresult err = cuCtxGetDevice(&device); /* is there a context? */

	if (!err && value &&
	    (attrib == CU_COREDUMP_ENABLE_USER_TRIGGER || attrib == CU_COREDUMP_PIPE))
		err = CUDA_ERROR_NOT_SUPPORTED;
	return err ? err : set_setting(attrib, value, size);
}

CK_EXPORT CUresult cuCoredumpSetAttributeGlobal(CUcoredumpSettings attrib, void *value,
						size_t *size)
{
	return set_setting(attrib, value, size);
}
