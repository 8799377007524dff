/*
 * tests/fuzz/fuzz_server_dispatch.c - any bytes as a command connection or a call lane of a
 * session whose driver has a few working functions and some objects to name.
 *
 * The first byte chooses the connection (bit 0) and whether every message gets a right record
 * mark and call header in front (bit 1), so that the mutations reach the arguments. Promises: no
 * fault, no leak, and the dispatcher returns when the stream ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "rpc/proc.h"
#include "server/worker/dispatch.h"
#include "server/memory/memory.h"
#include "server/modules/modcache.h"
#include "server/store/chunk_store.h"
#include "server/store/held_chunks.h"
#include "server/store/start_list.h"
#include "tests/fuzz/standalone.h"
#include "tests/unit/server_fake.h"

#define STREAM_MAX (192u << 10) /* fits a socket's buffer: the writer need not be a thread */
#define OBJECT 16		/* ids from here on name something */

/* Device memory is this and nothing else; objects are never freed. */
static uint8_t device[1 << 16];
static int objects[8];

static bool on_device(CUdeviceptr at, size_t size)
{
	CUdeviceptr base = (uintptr_t)device;

	return at >= base && at - base <= sizeof(device) && size <= sizeof(device) - (at - base);
}

static CUresult to_device(CUdeviceptr dst, const void *src, size_t size, CUstream stream)
{
	return on_device(dst, size) ? fake_HtoD(dst, src, size, stream) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult from_device(void *dst, CUdeviceptr src, size_t size, CUstream stream)
{
	return on_device(src, size) ? fake_DtoH(dst, src, size, stream) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult box(const CUDA_MEMCPY3D *c, CUstream stream)
{
	(void)c;
	(void)stream;
	return CUDA_SUCCESS;
}

static CUresult give(CUdeviceptr *out, size_t size)
{
	*out = (uintptr_t)device;
	return size <= sizeof(device) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult take(CUdeviceptr address)
{
	(void)address;
	return CUDA_SUCCESS;
}

static CUresult make_event(CUevent *event, unsigned int flags)
{
	(void)flags;
	*event = (CUevent)(void *)&objects[CK_KIND_EVENT];
	return CUDA_SUCCESS;
}

/* Every byte of the parameters is looked at: they must be where the server says. */
static CUresult launch(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
		       unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
		       CUstream stream, void **params, void **extra)
{
	unsigned int sum = gx + gy + gz + bx + by + bz + shared + (params != NULL);

	(void)stream;
	if (!f)
		abort();
	for (size_t i = 0; extra && i < *(size_t *)extra[3]; i++)
		sum += ((unsigned char *)extra[1])[i];
	return sum == 12345 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult launch_ex(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
	for (unsigned int i = 0; i < config->numAttrs; i++) {
		if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT &&
		    config->attrs[i].value.programmaticEvent.event &&
		    config->attrs[i].value.programmaticEvent.event !=
			    (CUevent)(void *)&objects[CK_KIND_EVENT])
			abort(); /* a number off the wire as a handle */
	}
	return launch(f, 0, 0, 0, 0, 0, 0, 0, config->hStream, params, extra);
}

static CUresult give_back_event(CUevent event)
{
	(void)event;
	return CUDA_SUCCESS;
}

static void install_driver(void)
{
	fake_install();
	ck_driver.cuMemcpyHtoDAsync_v2 = to_device;
	ck_driver.cuMemcpyDtoHAsync_v2 = from_device;
	ck_driver.cuMemcpy3DAsync_v2 = box;
	ck_driver.cuMemAlloc_v2 = give;
	ck_driver.cuMemFree_v2 = take;
	ck_driver.cuEventCreate = make_event;
	ck_driver.cuEventDestroy_v2 = give_back_event;
	ck_driver.cuLaunchKernel = launch;
	ck_driver.cuLaunchKernelEx = launch_ex;
}

static void remove_store(void)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf /tmp/ck-fuzz-store-%ld", (long)getpid());
	if (system(command) != 0)
		abort();
}

/* For uploads that are kept, of all inputs. */
static const char *store_folder(void)
{
	static char folder[64];

	if (!folder[0]) {
		snprintf(folder, sizeof(folder), "/tmp/ck-fuzz-store-%ld", (long)getpid());
		atexit(remove_store);
	}
	return folder;
}

static struct cks_session *make_session(void)
{
	static const struct ck_hash owner = {{1}};
	struct cks_session *session = NULL;
	struct cks_modcache *cache = NULL;

	install_driver();
	if (cks_modcache_open("/proc/no-such-place", NULL, 1 << 20, 1 << 20, &cache) < 0 ||
	    cks_session_create(cache, NULL, 1, &session) < 0)
		abort();
	session->wait_max_ms = 1; /* nobody brings news */
	cks_chunk_store_create(store_folder(), &owner, 1 << 20, &session->store);
	session->start = cks_start_list_open(session->store, "fuzz");
	session->held = cks_held_create(session->store, session->start);
	for (int kind = CK_KIND_CONTEXT; kind <= CK_KIND_KERNEL; kind++)
		cks_handles_put(session->handles, (uint64_t)(OBJECT + kind), (enum cks_kind)kind,
				OBJECT + CK_KIND_CONTEXT, &objects[kind]);
	return session;
}

/* Messages made of the input: two bytes of procedure, one of length, then the arguments. */
static size_t frame(const uint8_t *data, size_t size, uint8_t *out)
{
	size_t at = 0;

	while (size >= 3 && at + 44 + 255 < STREAM_MAX) {
		size_t n = data[2] < size - 3 ? data[2] : size - 3;
		uint32_t proc = (uint32_t)(data[0] << 8 | data[1]) % CK_PROC_END;
		const uint32_t words[] = {htonl(0x80000000u | (uint32_t)(40 + n)),
					  0,
					  0,
					  htonl(2),
					  htonl(CK_PROGRAM),
					  htonl(CK_VERSION),
					  htonl(proc),
					  0,
					  0,
					  0,
					  0};

		memcpy(out + at, words, sizeof(words));
		memcpy(out + at + sizeof(words), data + 3, n);
		at += sizeof(words) + n;
		data += 3 + n;
		size -= 3 + n;
	}
	return at;
}

/* Only the server's end stays: nobody reads its answers, but they are taken. */
static void *swallow(void *data)
{
	char bytes[4096];

	while (read((int)(intptr_t)data, bytes, sizeof(bytes)) > 0)
		;
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t stream[STREAM_MAX];
	struct cks_session *session;
	struct ck_reader *reader;
	struct ck_chan *chan;
	pthread_t thread;
	int pair[2];
	size_t n;

	if (size < 1)
		return 0;
	if (data[0] & 2) {
		n = frame(data + 1, size - 1, stream);
	} else {
		n = size - 1 < STREAM_MAX ? size - 1 : STREAM_MAX;
		memcpy(stream, data + 1, n);
	}
	session = make_session();
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 || ck_chan_adopt(pair[0], &chan) < 0 ||
	    ck_reader_create(chan, &reader) < 0)
		abort();
	if (pthread_create(&thread, NULL, swallow, (void *)(intptr_t)pair[1]) != 0)
		abort();
	for (size_t at = 0; at < n;) {
		ssize_t sent = send(pair[1], stream + at, n - at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent <= 0)
			break; /* the rest does not fit: a stream that ends early */
		at += (size_t)sent;
	}
	shutdown(pair[1], SHUT_WR);
	if (data[0] & 1) {
		cks_dispatch_commands(session, chan, reader);
	} else {
		cks_session_executed(session, UINT64_MAX); /* so that every call returns */
		cks_dispatch_calls(session, chan, reader);
	}
	ck_chan_shutdown(chan);
	pthread_join(thread, NULL);
	ck_reader_destroy(reader);
	ck_chan_close(chan);
	close(pair[1]);
	cks_session_destroy(session);
	return 0;
}
