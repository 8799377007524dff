/*
 * m3/copier_main.c - the process that touches the bytes of regions: it fills, reads, writes and
 * copies.
 *
 * It knows nothing of names and rights. An order comes with the descriptors of the memory that it
 * is about, which is mapped for as long as the order takes.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "m3/broker.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("m3");

static struct ck_m3_driver driver;
static CUcontext contexts[M3_DEVICES_MAX];

static CUresult use_device(int device)
{
	CUresult err = CUDA_SUCCESS;

	if (!contexts[device])
		err = driver.cuDevicePrimaryCtxRetain(&contexts[device], device);
	return err ? err : driver.cuCtxSetCurrent(contexts[device]);
}

/* Map the memory behind @fd for @device; 0: failed, and nothing is left of it. */
static CUresult map_piece(int fd, uint64_t size, int device, CUdeviceptr *out)
{
	CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, device},
				CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at;
	CUresult err = driver.cuMemImportFromShareableHandle(
		&handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

	if (err)
		return err;
	err = driver.cuMemAddressReserve(&at, size, 0, 0, 0);
	if (err)
		goto release;
	err = driver.cuMemMap(at, size, 0, handle, 0);
	if (!err)
		err = driver.cuMemSetAccess(at, size, &desc, 1);
	if (err) {
		driver.cuMemUnmap(at, size);
		driver.cuMemAddressFree(at, size);
	}
	*out = at;
release:
	driver.cuMemRelease(handle);
	return err;
}

static void unmap_piece(CUdeviceptr at, uint64_t size)
{
	driver.cuMemUnmap(at, size);
	driver.cuMemAddressFree(at, size);
}

static CUresult carry_out(const struct ck_m3_order *o, const CUdeviceptr *at, struct ck_m3_done *d)
{
	CUdeviceptr to = at[0] + o->offset[0];
	CUresult err;

	switch (o->op) {
	case CK_M3_FILL:
		err = driver.cuMemsetD8_v2(to, (unsigned char)o->value, o->size);
		break;
	case CK_M3_WRITE:
		err = driver.cuMemcpyHtoD_v2(to, o->data, o->data_size);
		break;
	case CK_M3_READ:
		err = driver.cuMemcpyDtoH_v2(d->data, to, o->size);
		d->data_size = err ? 0 : (uint32_t)o->size;
		break;
	default:
		err = driver.cuMemcpyDtoD_v2(to, at[1] + o->offset[1], o->size);
		break;
	}
	return err ? err : driver.cuCtxSynchronize();
}

/* Whether both pieces can be mapped for the first one's device. */
static bool can_map_together(const struct ck_m3_order *o)
{
	int can = 0;

	if (o->pieces < 2 || o->device[0] == o->device[1])
		return true;
	return driver.cuDeviceCanAccessPeer &&
	       driver.cuDeviceCanAccessPeer(&can, o->device[0], o->device[1]) == CUDA_SUCCESS &&
	       can;
}

/* From one device to another by way of our own memory. */
static CUresult carry_over(const struct ck_m3_order *o, const CUdeviceptr *at)
{
	static unsigned char room[4 << 20];
	CUresult err = CUDA_SUCCESS;

	for (uint64_t done = 0, n; done < o->size && !err; done += n) {
		n = ck_min(o->size - done, (uint64_t)sizeof(room));
		err = use_device(o->device[1]);
		if (!err)
			err = driver.cuMemcpyDtoH_v2(room, at[1] + o->offset[1] + done, n);
		if (!err)
			err = use_device(o->device[0]);
		if (!err)
			err = driver.cuMemcpyHtoD_v2(at[0] + o->offset[0] + done, room, n);
	}
	return err ? err : driver.cuCtxSynchronize();
}

/*
 * Both pieces are mapped for the first one's device; where that does not reach the other's memory,
 * each for its own.
 */
static int serve_order(const struct ck_m3_order *o, const int *fds, struct ck_m3_done *d)
{
	CUdeviceptr at[2] = {0, 0};
	uint32_t mapped = 0;
	bool direct = can_map_together(o);
	CUresult err = use_device(o->device[0]);

	for (; !err && mapped < o->pieces; mapped++) {
		err = map_piece(fds[mapped], o->piece_size[mapped], o->device[direct ? 0 : mapped],
				&at[mapped]);
		if (err)
			break;
	}
	if (!err)
		err = direct ? carry_out(o, at, d) : carry_over(o, at);
	if (err)
		ck_err("order %u on device %d: error %d", o->op, o->device[0], (int)err);
	while (mapped > 0) {
		mapped--;
		unmap_piece(at[mapped], o->piece_size[mapped]);
	}
	return ck_m3_status_of(err);
}

/*
 * After an error of a kernel or of the device, nothing works in this process any more. A working
 * driver returns success here, even if the order itself failed.
 */
static bool is_over(int status)
{
	CUresult err = status == M3_OK ? CUDA_SUCCESS : driver.cuCtxSynchronize();

	return err && err != CUDA_ERROR_INVALID_CONTEXT;
}

/* One order with its descriptors; false: the broker is gone. */
static bool receive_order(struct ck_m3_order *o, int *fds)
{
	char more;

	fds[0] = fds[1] = -1;
	if (ck_m3_receive(CK_M3_COPIER_FD, o, sizeof(*o), &fds[0], 0) <= 0)
		return false;
	return o->pieces < 2 || ck_m3_receive(CK_M3_COPIER_FD, &more, 1, &fds[1], 0) == 1;
}

int ck_m3_copier_main(const char *which)
{
	static struct ck_m3_order order;
	static struct ck_m3_done done;
	char why[256] = "";
	int fds[2];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "m3-copier");
	if (ck_m3_driver_open(&driver, which, why, sizeof(why)) < 0) {
		ck_err("copier: %s", why);
		return 1;
	}
	while (receive_order(&order, fds)) {
		done.data_size = 0;
		done.status = serve_order(&order, fds, &done);
		for (int i = 0; i < 2; i++) {
			if (fds[i] >= 0)
				close(fds[i]);
		}
		if (is_over(done.status))
			return 1; /* which is the order's answer: another copier has the next one */
		if (ck_m3_send(CK_M3_COPIER_FD, &done, offsetof(struct ck_m3_done, data), done.data,
			       done.data_size, -1, 0) < 0)
			break;
	}
	return 0;
}
