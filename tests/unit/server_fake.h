/*
 * tests/unit/server_fake.h - a CUDA driver of a few functions, to run the server's parts on.
 *
 * Device memory is memory of this process. Copies are queued and carried out only when somebody
 * waits for an event after them, so a staging slot that is used again too early is found out.
 */
#ifndef CK_TEST_SERVER_FAKE_H
#define CK_TEST_SERVER_FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "gen/driver.h"

#define FAKE_COPIES 4096

struct fake_copy {
	void *dst;
	const void *src;
	size_t size;
};

static struct {
	pthread_mutex_t lock;
	struct fake_copy queue[FAKE_COPIES];
	size_t count;
	CUresult copy_error;	 /* what every copy returns; 0: it works */
	CUresult wait_error;	 /* what every wait returns */
	unsigned int sets;	 /* calls of cuMemsetD8_v2 */
	unsigned int set_last;	 /* value of the newest */
	unsigned int set_delay;	 /* microseconds that each takes */
	bool set_in_order;	 /* each value was one more than the one before */
	unsigned int asked;	 /* calls of cuMemGetInfo_v2 */
	unsigned int registered; /* host ranges registered now */
	CUcontext registered_in; /* where the newest was, and where alone they can be taken back */
	unsigned int events;	 /* events that exist */
	bool running;		 /* no event has come yet */
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .set_in_order = true};

static _Thread_local CUcontext fake_current;

/* Carry out what is queued. */
static inline void fake_flush(void)
{
	pthread_mutex_lock(&fake.lock);
	for (size_t i = 0; i < fake.count; i++)
		memcpy(fake.queue[i].dst, fake.queue[i].src, fake.queue[i].size);
	fake.count = 0;
	pthread_mutex_unlock(&fake.lock);
}

static inline CUresult fake_copy(void *dst, const void *src, size_t size)
{
	bool full;

	if (fake.copy_error)
		return fake.copy_error;
	pthread_mutex_lock(&fake.lock);
	fake.queue[fake.count++] = (struct fake_copy){dst, src, size};
	full = fake.count == FAKE_COPIES;
	pthread_mutex_unlock(&fake.lock);
	if (full)
		fake_flush();
	return CUDA_SUCCESS;
}

static inline CUresult fake_HtoD(CUdeviceptr dst, const void *src, size_t size, CUstream stream)
{
	(void)stream;
	return fake_copy((void *)(uintptr_t)dst, src, size);
}

static inline CUresult fake_DtoH(void *dst, CUdeviceptr src, size_t size, CUstream stream)
{
	(void)stream;
	return fake_copy(dst, (const void *)(uintptr_t)src, size);
}

static inline CUresult fake_HtoD_now(CUdeviceptr dst, const void *src, size_t size)
{
	memcpy((void *)(uintptr_t)dst, src, size);
	return CUDA_SUCCESS;
}

static inline CUresult fake_DtoH_now(void *dst, CUdeviceptr src, size_t size)
{
	memcpy(dst, (const void *)(uintptr_t)src, size);
	return CUDA_SUCCESS;
}

/* Row by row; only what the server makes: one side packed, the other a box of device memory. */
static inline CUresult fake_3D(const CUDA_MEMCPY3D *c, CUstream stream)
{
	bool up = c->dstMemoryType == CU_MEMORYTYPE_DEVICE;
	size_t x = up ? c->dstXInBytes : c->srcXInBytes, y0 = up ? c->dstY : c->srcY;
	size_t z0 = up ? c->dstZ : c->srcZ, pitch = up ? c->dstPitch : c->srcPitch;
	size_t height = up ? c->dstHeight : c->srcHeight;
	char *device = (char *)(uintptr_t)(up ? c->dstDevice : c->srcDevice);
	char *host = up ? (char *)(uintptr_t)c->srcHost : c->dstHost;

	(void)stream;
	for (size_t z = 0; z < c->Depth; z++) {
		for (size_t y = 0; y < c->Height; y++) {
			char *row = device + ((z0 + z) * height + y0 + y) * pitch + x;
			char *packed = host + (z * c->Height + y) * c->WidthInBytes;

			fake_copy(up ? row : packed, up ? packed : row, c->WidthInBytes);
		}
	}
	return fake.copy_error;
}

static inline CUresult fake_event_create(CUevent *event, unsigned int flags)
{
	(void)flags;
	*event = malloc(1);
	__atomic_fetch_add(&fake.events, 1, __ATOMIC_SEQ_CST);
	return CUDA_SUCCESS;
}

static inline CUresult fake_event_destroy(CUevent event)
{
	free(event);
	__atomic_fetch_sub(&fake.events, 1, __ATOMIC_SEQ_CST);
	return CUDA_SUCCESS;
}

static inline CUresult fake_event_record(CUevent event, CUstream stream)
{
	(void)event;
	(void)stream;
	return CUDA_SUCCESS;
}

static inline CUresult fake_event_wait(CUevent event)
{
	(void)event;
	fake_flush();
	__atomic_store_n(&fake.running, false, __ATOMIC_SEQ_CST);
	return fake.wait_error;
}

static inline CUresult fake_event_query(CUevent event)
{
	(void)event;
	return fake.running ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static inline CUresult fake_stream_wait(CUstream stream)
{
	(void)stream;
	fake_flush();
	return fake.wait_error;
}

static inline CUresult fake_set_current(CUcontext context)
{
	fake_current = context;
	return CUDA_SUCCESS;
}

static inline CUresult fake_alloc(CUdeviceptr *out, size_t size)
{
	if (size == 0 || size > (1u << 30))
		return size ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	*out = (uintptr_t)calloc(1, size);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static inline CUresult fake_free(CUdeviceptr address)
{
	fake_flush();
	free((void *)(uintptr_t)address);
	return CUDA_SUCCESS;
}

static inline CUresult fake_register(void *host, size_t size, unsigned int flags)
{
	(void)host;
	(void)flags;
	if (size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	__atomic_store_n(&fake.registered_in, fake_current, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&fake.registered, 1, __ATOMIC_SEQ_CST);
	return CUDA_SUCCESS;
}

static inline CUresult fake_device_pointer(CUdeviceptr *device, void *host, unsigned int flags)
{
	(void)flags;
	*device = (uintptr_t)host;
	return CUDA_SUCCESS;
}

static inline CUresult fake_push(CUcontext context)
{
	(void)context;
	return CUDA_SUCCESS;
}

static inline CUresult fake_pop(CUcontext *context)
{
	*context = NULL;
	return CUDA_SUCCESS;
}

static inline CUresult fake_unregister(void *host)
{
	(void)host;
	if (fake.registered_in && fake_current != fake.registered_in)
		return CUDA_ERROR_INVALID_CONTEXT;
	__atomic_fetch_sub(&fake.registered, 1, __ATOMIC_SEQ_CST);
	return CUDA_SUCCESS;
}

static inline CUresult fake_set(CUdeviceptr at, unsigned char value, size_t size)
{
	struct timespec t = {.tv_nsec = fake.set_delay * 1000L};

	(void)at;
	(void)size;
	if (fake.set_delay)
		nanosleep(&t, NULL);
	fake.set_in_order &= value == (unsigned char)(fake.set_last + 1);
	fake.set_last = value;
	__atomic_fetch_add(&fake.sets, 1, __ATOMIC_SEQ_CST);
	return CUDA_SUCCESS;
}

/* free: how many sets have been carried out. */
static inline CUresult fake_info(size_t *free, size_t *total)
{
	__atomic_fetch_add(&fake.asked, 1, __ATOMIC_SEQ_CST);
	*free = __atomic_load_n(&fake.sets, __ATOMIC_SEQ_CST);
	*total = (size_t)(uintptr_t)fake_current;
	return CUDA_SUCCESS;
}

static inline void fake_install(void)
{
	fake_flush();
	fake.copy_error = fake.wait_error = CUDA_SUCCESS;
	fake.sets = fake.set_last = fake.set_delay = fake.asked = 0;
	fake.set_in_order = true;
	fake.running = false;
	ck_driver = (struct ck_driver){
		.cuCtxSetCurrent = fake_set_current,
		.cuMemAlloc_v2 = fake_alloc,
		.cuMemFree_v2 = fake_free,
		.cuMemGetInfo_v2 = fake_info,
		.cuMemsetD8_v2 = fake_set,
		.cuMemcpyHtoDAsync_v2 = fake_HtoD,
		.cuMemcpyDtoHAsync_v2 = fake_DtoH,
		.cuMemcpyHtoD_v2 = fake_HtoD_now,
		.cuMemcpyDtoH_v2 = fake_DtoH_now,
		.cuMemcpy3DAsync_v2 = fake_3D,
		.cuMemHostRegister_v2 = fake_register,
		.cuMemHostGetDevicePointer_v2 = fake_device_pointer,
		.cuCtxPushCurrent_v2 = fake_push,
		.cuCtxPopCurrent_v2 = fake_pop,
		.cuMemHostUnregister = fake_unregister,
		.cuEventCreate = fake_event_create,
		.cuEventDestroy_v2 = fake_event_destroy,
		.cuEventRecord = fake_event_record,
		.cuEventQuery = fake_event_query,
		.cuEventSynchronize = fake_event_wait,
		.cuStreamSynchronize = fake_stream_wait,
	};
}

#endif
