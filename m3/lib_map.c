/*
 * m3/lib_map.c - libm3: regions in the address space of this process.
 *
 * All devices see a region at one address; which of them may use it, and how, is their access
 * there.
 */
#include <string.h>
#include <unistd.h>

#include "m3/lib.h"

static bool region_is_mapped(const m3_region *r)
{
	return r->address != 0;
}

static int set_access(m3_region *r, int device, unsigned int access)
{
	CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, (CUmemAccess_flags)access};

	return ck_m3_status_of(r->client->driver.cuMemSetAccess(r->address, r->size, &desc, 1));
}

/* Whether @device can reach the region's memory, all of it. */
static int check_device_reach(const m3_region *r, int device)
{
	const struct ck_m3_driver *d = &r->client->driver;

	if (!r->client->has_driver)
		return M3_ENOTSUP;
	if (device < 0 || device >= d->device_count)
		return M3_EINVAL;
	for (unsigned int i = 0; i < r->stripes; i++) {
		int at = r->devices[i], can = at == device;

		if (!can && at >= 0 && d->cuDeviceCanAccessPeer)
			d->cuDeviceCanAccessPeer(&can, device, at);
		if (!can)
			return M3_ENOPEER;
	}
	return M3_OK;
}

/* A part of the region's memory as a handle of this process's driver. */
static int import_part(m3_region *r, unsigned int part, unsigned int access,
		       CUmemGenericAllocationHandle *handle)
{
	m3_client *c = r->client;
	struct ck_m3_back back = {.fd = -1};
	struct ck_m3_request q;
	CUresult err;
	int status;

	ck_m3_request_init(&q, CK_M3_FETCH);
	q.access = access;
	q.value = part;
	status = ck_m3_call(c, r, &q, NULL, NULL, &back);
	if (status != M3_OK)
		return status;
	if (c->shim)
		err = c->shim->import(r->rid, part, access, handle);
	else if (back.fd < 0)
		return M3_EPROTO;
	else
		err = c->driver.cuMemImportFromShareableHandle(
			handle, (void *)(intptr_t)back.fd,
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (back.fd >= 0)
		close(back.fd);
	return ck_m3_status_of(err);
}

static void tell_unmapped(m3_region *r)
{
	struct ck_m3_request q;

	ck_m3_request_init(&q, CK_M3_UNMAP);
	ck_m3_call(r->client, r, &q, NULL, NULL, NULL); /* a broker that is gone need not know */
}

/* Unmap the first @count parts of the mapping at @at, and give up the address. */
static void give_up(m3_region *r, CUdeviceptr at, unsigned int count)
{
	const struct ck_m3_driver *d = &r->client->driver;

	if (count > 0)
		d->cuMemUnmap(at, r->size / r->stripes * count);
	d->cuMemAddressFree(at, r->size);
}

static int map_part(m3_region *r, unsigned int part, unsigned int access, CUdeviceptr at)
{
	const struct ck_m3_driver *d = &r->client->driver;
	CUmemGenericAllocationHandle handle;
	uint64_t size = r->size / r->stripes;
	int status = import_part(r, part, access, &handle);

	if (status != M3_OK)
		return status;
	status = ck_m3_status_of(d->cuMemMap(at + part * size, size, 0, handle, 0));
	d->cuMemRelease(handle);
	if (status != M3_OK && part == 0)
		tell_unmapped(r);
	return status;
}

/* Give the region an address, which no device may use yet. */
static int map_region(m3_region *r, unsigned int access, m3_device_ptr hint)
{
	CUdeviceptr at = 0;
	unsigned int part = 0;
	int status = ck_m3_status_of(
		r->client->driver.cuMemAddressReserve(&at, r->size, r->alignment, hint, 0));

	if (status != M3_OK)
		return status;
	while (part < r->stripes && status == M3_OK) {
		status = map_part(r, part, access, at);
		part += status == M3_OK;
	}
	if (status == M3_OK) {
		r->address = at;
		return M3_OK;
	}
	give_up(r, at, part);
	if (part > 0)
		tell_unmapped(r);
	return status;
}

/* Unmapping under work that uses the memory would end the context. */
static void take_away(m3_region *r)
{
	const struct ck_m3_driver *d = &r->client->driver;
	CUcontext context = NULL;

	if (d->cuCtxGetCurrent && d->cuCtxGetCurrent(&context) == CUDA_SUCCESS && context)
		d->cuCtxSynchronize();
	give_up(r, r->address, r->stripes);
	r->address = 0;
	memset(r->maps, 0, sizeof(r->maps));
	tell_unmapped(r);
}

static bool any_maps(const m3_region *r)
{
	unsigned int sum = 0;

	for (int i = 0; i < M3_DEVICES_MAX; i++)
		sum |= r->maps[i];
	return sum != 0;
}

static int map_locked(m3_region *r, int device, unsigned int access, m3_device_ptr hint)
{
	int status = check_device_reach(r, device);

	if (status == M3_OK && (access & ~r->access))
		status = M3_EPERM;
	if (status == M3_OK && !region_is_mapped(r))
		status = map_region(r, access, hint);
	if (status != M3_OK)
		return status;
	if (r->maps[device] == 0 || (access & ~r->map_access[device])) {
		status = set_access(r, device, access);
		if (status != M3_OK) {
			if (!any_maps(r))
				take_away(r);
			return status;
		}
		r->map_access[device] = access;
	}
	r->maps[device]++;
	return M3_OK;
}

int m3_map(m3_region *r, int device, int access, m3_device_ptr hint, m3_device_ptr *out)
{
	int status;

	if (!r || (access != M3_READ && access != M3_READWRITE))
		return M3_EINVAL;
	pthread_mutex_lock(&r->lock);
	status = map_locked(r, device == M3_ANY_DEVICE ? r->devices[0] : device,
			    (unsigned int)access, hint);
	if (status == M3_OK && out)
		*out = r->address;
	pthread_mutex_unlock(&r->lock);
	return status;
}

int m3_unmap(m3_region *r, int device)
{
	int status = M3_EINVAL;

	if (!r)
		return M3_EINVAL;
	pthread_mutex_lock(&r->lock);
	if (device == M3_ANY_DEVICE)
		device = r->devices[0];
	if (device >= 0 && device < M3_DEVICES_MAX && r->maps[device] > 0) {
		status = M3_OK;
		if (--r->maps[device] == 0 && any_maps(r))
			status = set_access(r, device, CU_MEM_ACCESS_FLAGS_PROT_NONE);
		else if (!any_maps(r))
			take_away(r);
	}
	pthread_mutex_unlock(&r->lock);
	return status;
}

void ck_m3_unmap_all(m3_region *r)
{
	if (region_is_mapped(r))
		take_away(r);
}

static int set_access_locked(m3_region *r, uint64_t devices, unsigned int access)
{
	int status = region_is_mapped(r) ? M3_OK : M3_EINVAL;

	if (devices == 0 || devices >> M3_DEVICES_MAX || (access & ~r->access))
		return devices && !(devices >> M3_DEVICES_MAX) ? M3_EPERM : M3_EINVAL;
	for (int i = 0; i < M3_DEVICES_MAX && status == M3_OK; i++) {
		if (devices >> i & 1)
			status = check_device_reach(r, i);
	}
	for (int i = 0; i < M3_DEVICES_MAX && status == M3_OK; i++) {
		if (!(devices >> i & 1))
			continue;
		status = set_access(r, i, access);
		if (status == M3_OK) {
			r->map_access[i] = access;
			r->maps[i] += r->maps[i] == 0; /* it is one of those that map it now */
		}
	}
	return status;
}

int m3_set_access(m3_region *r, uint64_t devices, int access)
{
	int status;

	if (!r || (access != M3_READ && access != M3_READWRITE))
		return M3_EINVAL;
	pthread_mutex_lock(&r->lock);
	status = set_access_locked(r, devices, (unsigned int)access);
	pthread_mutex_unlock(&r->lock);
	return status;
}

/* Make this process's mappings read-only. */
int ck_m3_read_only(m3_region *r)
{
	int status = M3_OK;

	for (int i = 0; i < M3_DEVICES_MAX && status == M3_OK; i++) {
		if (r->maps[i] && r->map_access[i] != M3_READ) {
			status = set_access(r, i, M3_READ);
			r->map_access[i] = M3_READ;
		}
	}
	return status;
}

m3_device_ptr m3_region_ptr(const m3_region *r)
{
	return r ? r->address : 0;
}

/*
 * Whether the bytes can be reached without the broker: mapped for the device of the current
 * context, and with the wanted rights.
 */
bool ck_m3_direct(const m3_region *r, unsigned int access)
{
	const struct ck_m3_driver *d = &r->client->driver;
	CUdevice device;

	return region_is_mapped(r) && d->cuCtxGetDevice && d->cuMemcpyHtoD_v2 &&
	       d->cuMemcpyDtoH_v2 && d->cuCtxGetDevice(&device) == CUDA_SUCCESS && device >= 0 &&
	       device < M3_DEVICES_MAX && r->maps[device] > 0 &&
	       (r->map_access[device] & access) == access;
}
