/*
 * server/worker/device_snapshot.c - device facts, queried from the driver once per session.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "gen/driver.h"
#include "rpc/image_alias.h"
#include "server/modules/modcache.h"
#include "server/session/device_map.h"
#include "server/session/driver.h"
#include "server/worker/device_snapshot.h"
#include "util/util.h"

/* Attributes are queried by number; newer drivers may know more than this build's list. */
#define CK_ATTRIBUTES_ASKED (CU_DEVICE_ATTRIBUTE_MAX + 32)

/* The values of every GPU so far; a query would need a context, which a snapshot must not make. */
#define CK_PRIORITY_LOW 0
#define CK_PRIORITY_HIGH (-5)

static CUresult fill_attributes(ck_device *d, CUdevice dev)
{
	ck_attribute *list;
	u_int count = 0;
	int value;

	_Static_assert(CK_ATTRIBUTES_ASKED <= CK_MAX_ATTRIBUTES, "a snapshot holds all answers");
	if (!ck_driver.cuDeviceGetAttribute)
		return CUDA_ERROR_NOT_SUPPORTED;
	list = calloc(CK_ATTRIBUTES_ASKED, sizeof(*list));
	if (!list)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (int id = 1; id < CK_ATTRIBUTES_ASKED; id++) {
		if (ck_driver.cuDeviceGetAttribute(&value, (CUdevice_attribute)id, dev))
			continue;
		list[count++] = (ck_attribute){.id = id, .value = value};
	}
	d->attributes.attributes_val = list;
	d->attributes.attributes_len = count;
	return CUDA_SUCCESS;
}

/* Names and numbers; values that the driver does not report stay empty. */
static void fill_identity(ck_device *d, CUdevice dev)
{
	char text[256] = "";
	size_t memory = 0;
	CUuuid uuid;

	if (ck_driver.cuDeviceGetName)
		ck_driver.cuDeviceGetName(text, sizeof(text) - 1, dev);
	d->name = strdup(text);
	text[0] = '\0';
	if (ck_driver.cuDeviceGetPCIBusId)
		ck_driver.cuDeviceGetPCIBusId(text, 32, dev);
	text[32] = '\0';
	d->pci_bus_id = strdup(text);
	if (ck_driver.cuDeviceGetUuid && !ck_driver.cuDeviceGetUuid(&uuid, dev))
		memcpy(d->uuid, uuid.bytes, sizeof(d->uuid));
	if (ck_driver.cuDeviceGetUuid_v2 && !ck_driver.cuDeviceGetUuid_v2(&uuid, dev))
		memcpy(d->uuid_v2, uuid.bytes, sizeof(d->uuid_v2));
	else
		memcpy(d->uuid_v2, d->uuid, sizeof(d->uuid_v2));
	cks_device_map_note((int)dev, (const unsigned char *)d->uuid_v2);
	if (ck_driver.cuDeviceGetLuid)
		ck_driver.cuDeviceGetLuid(d->luid, &d->luid_mask, dev);
	if (ck_driver.cuDeviceTotalMem_v2)
		ck_driver.cuDeviceTotalMem_v2(&memory, dev);
	d->memory = memory;
}

static void fill_priorities(ck_device *d)
{
	int low = 0, high = 0;

	d->stream_priority_low = CK_PRIORITY_LOW;
	d->stream_priority_high = CK_PRIORITY_HIGH;
	if (ck_driver.cuCtxGetStreamPriorityRange &&
	    !ck_driver.cuCtxGetStreamPriorityRange(&low, &high)) {
		d->stream_priority_low = low;
		d->stream_priority_high = high;
	}
}

static CUresult fill_device(ck_device *d, int ordinal)
{
	CUdevice dev = ordinal;
	CUresult err;

	if (ck_driver.cuDeviceGet) {
		err = ck_driver.cuDeviceGet(&dev, ordinal);
		if (err)
			return err;
	}
	fill_identity(d, dev);
	fill_priorities(d);
	if (!d->name || !d->pci_bus_id)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return fill_attributes(d, dev);
}

/* Query one fact of a pair of devices; attribute 0 stands for cuDeviceCanAccessPeer. */
static bool peer_fact(int attribute, int src, int dst, int *value)
{
	if (attribute == 0)
		return ck_driver.cuDeviceCanAccessPeer &&
		       !ck_driver.cuDeviceCanAccessPeer(value, src, dst);
	return ck_driver.cuDeviceGetP2PAttribute &&
	       !ck_driver.cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attribute, src,
						  dst);
}

static CUresult fill_peers(ck_hello_res *res)
{
	const int last = CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED;
	int count = (int)res->devices.devices_len, value;
	ck_p2p *list, *p;

	if (count < 2)
		return CUDA_SUCCESS;
	list = calloc((size_t)count * (size_t)count * (size_t)(last + 1), sizeof(*list));
	if (!list)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p = list;
	for (int src = 0; src < count; src++) {
		for (int dst = 0; dst < count; dst++) {
			for (int a = 0; src != dst && a <= last; a++) {
				if (peer_fact(a, src, dst, &value))
					*p++ = (ck_p2p){src, dst, a, value};
			}
		}
	}
	res->p2p.p2p_val = list;
	res->p2p.p2p_len = (u_int)(p - list);
	return CUDA_SUCCESS;
}

CUresult cks_snapshot_fill(ck_hello_res *res)
{
	int count = 0;
	CUresult err = ck_driver.cuDriverGetVersion(&res->driver_version);

	if (!err)
		err = ck_driver.cuDeviceGetCount(&count);
	if (err)
		return err;
	count = ck_min(count, CK_MAX_DEVICES);
	res->devices.devices_val = calloc((size_t)count + 1, sizeof(ck_device));
	if (!res->devices.devices_val)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (int i = 0; i < count && !err; i++) {
		err = fill_device(&res->devices.devices_val[i], i);
		res->devices.devices_len++;
	}
	return err ? err : fill_peers(res);
}

int cks_snapshot_modules(ck_hello_res *res, struct cks_modcache *cache)
{
	struct ck_hash *hashes = calloc(CK_MODCACHE_LIST, sizeof(*hashes));
	ck_module_hash *list = calloc(CK_MODCACHE_LIST, sizeof(*list));
	size_t count;

	if (!hashes || !list) {
		free(hashes);
		free(list);
		return -ENOMEM;
	}
	count = cks_modcache_list(cache, hashes);
	for (size_t i = 0; i < count; i++) {
		struct ck_hash alias;

		ck_image_alias(res->session, &hashes[i], &alias);
		memcpy(list[i].hash, alias.bytes, sizeof(list[i].hash));
	}
	free(hashes);
	res->modules.modules_val = list;
	res->modules.modules_len = (u_int)count;
	return 0;
}

void cks_snapshot_world(const ck_hello_res *res, struct ck_hash *world)
{
	size_t size = 0, devices = xdr_sizeof((xdrproc_t)xdr_ck_hello_res, (void *)(uintptr_t)res);
	unsigned char *bytes = calloc(1, devices + sizeof(struct cks_driver_file));
	XDR xdrs;

	if (bytes && cks_driver_file((struct cks_driver_file *)bytes)) {
		size = sizeof(struct cks_driver_file);
		xdrmem_create(&xdrs, (char *)bytes + size, (u_int)devices, XDR_ENCODE);
		if (xdr_ck_hello_res(&xdrs, (ck_hello_res *)(uintptr_t)res))
			size += xdr_getpos(&xdrs);
		else
			size = 0;
	}
	if (size > 0)
		ck_hash(bytes, size, world);
	else if (getrandom(world, sizeof(*world), 0) < 0)
		memset(world, 0xff, sizeof(*world));
	free(bytes);
}
