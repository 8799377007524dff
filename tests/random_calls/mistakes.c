/* tests/random_calls/mistakes.c - calls that the driver refuses: each prints its code. */
#include <stdlib.h>

#include "tests/random_calls/world.h"

/* @end is the first address behind the buffer. */
static CUresult one_mistake(struct world *w, unsigned i, struct buffer *b, CUdeviceptr end)
{
	CUdeviceptr p;
	CUfunction f;
	size_t size;
	void *host;
	CUgraph graph;
	char bytes[16] = {0};

	switch (i) {
	case 0:
		return CU(cuMemAlloc_v2)(&p, 0);
	case 1:
		return CU(cuMemFree_v2)(b->device + 1);
	case 2:
		return CU(cuMemFree_v2)(8);
	case 3:
		return CU(cuMemcpyHtoD_v2)(8, bytes, 4);
	case 4:
		return CU(cuMemcpyHtoD_v2)(end - 4, bytes, 8);
	case 5:
		return CU(cuMemcpyDtoH_v2)(bytes, end - 4, 8);
	case 6:
		return CU(cuMemsetD32_v2)(b->device + 2, 0, 1);
	case 7:
		return CU(cuMemsetD8_v2)(end - 4, 0, 8);
	case 8:
		return CU(cuModuleGetFunction)(&f, w->module, "none");
	case 9:
		return CU(cuModuleGetGlobal_v2)(&p, &size, w->module, "none");
	case 10:
		return CU(cuLaunchKernel)(w->function[0], 0, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
	case 11:
		return CU(cuLaunchKernel)(w->function[0], 1, 1, 1, 2048, 1, 1, 0, NULL, NULL, NULL);
	case 12:
		return CU(cuLaunchKernel)(w->function[0], 1, 1, 1, 32, 1, 1, 1 << 24, NULL, NULL,
					  NULL);
	case 13:
		return CU(cuMemHostUnregister)(bytes);
	case 14:
		return CU(cuStreamEndCapture)(w->stream[FIRST_CREATED], &graph);
	case 15:
		return CU(cuStreamWaitEvent)(w->stream[FIRST_CREATED], w->event[0], 99);
	case 16:
		return CU(cuEventElapsedTime_v2)((float *)bytes, w->event[0], w->event[1]);
	case 17:
		return CU(cuMemHostAlloc)(&host, 16, 99);
	case 18:
		return CU(cuMemcpyDtoDAsync_v2)(end - 4, b->device, 8, w->stream[FIRST_CREATED]);
	case 19:
		return CU(cuPointerGetAttribute)(&p, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						 (CUdeviceptr)bytes);
	case 20:
		return CU(cuStreamCreate)((CUstream *)bytes, 77);
	case 21:
		return CU(cuEventCreate)((CUevent *)bytes, 0xff00);
	default:
		return CU(cuMemHostRegister_v2)(b->host, 16, 99);
	}
}

void mistake(struct world *w)
{
	struct buffer *b = some_buffer(w, on_device);
	unsigned i = below(w, 23);

	if (b->kind != DEVICE && i != 0 && i != 2 && i != 3 && (i < 8 || i == 18))
		return;
	use_one(w, HOST, b, true); /* if it succeeds after all */
	say(w, "mistake %u: %d\n", i, one_mistake(w, i, b, b->device + b->size));
}
