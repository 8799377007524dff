/*
 * server/nccl/library.c - the server's libnccl.so.2, opened at a client's first call of NCCL.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server/nccl/nccl.h"
#include "server/session/driver.h"
#include "util/env.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

static const char *const places[] = {
	"libnccl.so.2",
	"/usr/local/cuda/lib64/libnccl.so.2",
	"/usr/local/cuda/lib/libnccl.so.2",
};

/* A worker has one library, and it stays. */
static struct {
	pthread_once_t once;
	const char *why; /* NULL: it is open */
	char text[CK_NCCL_TEXT];
} state = {.once = PTHREAD_ONCE_INIT};

static void *open_named(const char *named)
{
	void *library = NULL;

	if (named && *named)
		return dlopen(named, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; !library && i < CK_ARRAY_SIZE(places); i++)
		library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
	return library;
}

static void report_failure(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void report_failure(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(state.text, sizeof(state.text), format, args);
	va_end(args);
	state.why = state.text;
	ck_warn("a client asks for NCCL: %s", state.why);
}

static void open_library(void)
{
	const char *named = ck_env_string("CRICKET_NCCL_LIBRARY");
	int version = 0;
	void *library;

	if (named && strcmp(named, "off") == 0) {
		report_failure("the server offers none (--nccl off)");
		return;
	}
	if (cks_driver_emulated() && !(named && *named)) {
		report_failure("the emulated GPU has none");
		return;
	}
	library = open_named(named);
	if (!library) {
		report_failure("the server has no NCCL: %s (--nccl LIBRARY)", dlerror());
		return;
	}
	for (const struct cks_nccl_symbol *s = cks_nccl_symbols; s->name; s++)
		*s->slot = dlsym(library, s->name);
	if (!cks_nccl.ncclGetVersion || !cks_nccl.ncclGetUniqueId ||
	    !cks_nccl.ncclCommInitRankConfig || !cks_nccl.ncclCommGetAsyncError ||
	    !cks_nccl.ncclCommAbort || !cks_nccl.ncclCommDestroy || !cks_nccl.ncclGroupStart ||
	    !cks_nccl.ncclGroupEnd)
		report_failure("the server's NCCL is older than 2.14");
	else if (cks_nccl.ncclGetVersion(&version) == ncclSuccess)
		ck_info("NCCL %d.%d.%d for a client", version / 10000, version / 100 % 100,
			version % 100);
}

const char *cks_nccl_open(void)
{
	pthread_once(&state.once, open_library);
	return state.why;
}
