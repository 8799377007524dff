/*
 * m3/serve_query.c - requests that ask: for sizes, devices, regions, quotas.
 */
#include <stdbool.h>
#include <string.h>

#include "m3/broker.h"
#include "util/util.h"

int ck_m3_device_of(const struct ck_m3_broker *b, const struct ck_m3_request *q, int *device)
{
	static const unsigned char none[16];

	*device = q->device;
	if (memcmp(q->uuid, none, sizeof(none)) != 0) {
		*device = ck_m3_driver_device(&b->driver, q->uuid);
		return *device < 0 ? M3_EINVAL : M3_OK;
	}
	return q->device >= -1 && q->device < b->driver.device_count ? M3_OK : M3_EINVAL;
}

/* --- sizes */

int ck_m3_round(struct ck_m3_broker *b, int device, uint64_t bytes, bool recommended,
		uint64_t *rounded, uint64_t *granularity)
{
	uint64_t sum;
	int status = ck_m3_granularity(b, device, recommended, granularity);

	if (status != M3_OK)
		return status;
	if (ck_add_overflow(ck_max(bytes, 1ul), *granularity - 1, &sum))
		return M3_EINVAL;
	*rounded = sum - sum % *granularity;
	return M3_OK;
}

int ck_m3_serve_round(struct ck_m3_ask *ask)
{
	int device, status = ck_m3_device_of(ask->b, ask->q, &device);

	if (status != M3_OK)
		return status;
	if (device < 0)
		device = ck_max(ask->conn->device, 0);
	return ck_m3_round(ask->b, device, ask->q->size, ask->q->flags & M3_RECOMMENDED,
			   &ask->reply.size, &ask->reply.count);
}

/* --- devices */

static int get_device_attribute(struct ck_m3_broker *b, CUdevice_attribute which, int device)
{
	int value = 0;

	if (b->driver.cuDeviceGetAttribute)
		b->driver.cuDeviceGetAttribute(&value, which, device);
	return value;
}

uint64_t ck_m3_device_bytes(const struct ck_m3_broker *b, int device)
{
	size_t bytes = 0;

	if (b->driver.cuDeviceTotalMem_v2)
		b->driver.cuDeviceTotalMem_v2(&bytes, device);
	return bytes;
}

bool ck_m3_reaches(const struct ck_m3_broker *b, int from, int to)
{
	int can = 0;

	return from == to ||
	       (b->driver.cuDeviceCanAccessPeer &&
		b->driver.cuDeviceCanAccessPeer(&can, from, to) == CUDA_SUCCESS && can);
}

int ck_m3_serve_topology(struct ck_m3_ask *ask)
{
	static m3_topo topo;
	struct ck_m3_broker *b = ask->b;
	int atomics;

	memset(&topo, 0, sizeof(topo));
	topo.count = b->driver.device_count;
	for (int i = 0; i < topo.count; i++) {
		struct m3_topo_device *d = &topo.devices[i];

		d->device = i;
		d->vmm = get_device_attribute(
			b, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, i);
		d->fd = get_device_attribute(
			b, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, i);
		d->fabric = get_device_attribute(
			b, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, i);
		d->bytes = ck_m3_device_bytes(b, i);
		d->used = b->used[i];
		b->driver.cuDeviceGetUuid((CUuuid *)d->uuid, i);
		for (int j = 0; j < topo.count; j++) {
			atomics = 0;
			if (j == i || !ck_m3_reaches(b, i, j))
				continue;
			d->peers |= 1u << j;
			if (b->driver.cuDeviceGetP2PAttribute)
				b->driver.cuDeviceGetP2PAttribute(
					&atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
					i, j);
			d->links |= (uint32_t)(atomics != 0) << j;
		}
	}
	ask->back = &topo;
	ask->back_size = sizeof(topo);
	return M3_OK;
}

/* --- lists and quotas */

/* Did this connection's principal make it, for the same payer? */
static bool is_own(const struct ck_m3_conn *conn, const struct ck_m3_piece *p)
{
	return p->owner == conn->principal && (!conn->payer || p->payer == conn->payer);
}

int ck_m3_serve_list(struct ck_m3_ask *ask)
{
	static m3_info infos[CK_M3_DATA_MAX / sizeof(m3_info)];
	const struct ck_m3_request *q = ask->q;
	size_t n = 0, prefix = strlen(q->name);
	const struct ck_m3_piece *p;

	for (p = ask->b->pieces; p && n < CK_ARRAY_SIZE(infos); p = p->next) {
		if (p->rid <= q->from || p->gone || strncmp(p->name, q->name, prefix) != 0 ||
		    !ck_m3_piece_access(p, ask->conn->principal) ||
		    (q->value && !is_own(ask->conn, p)))
			continue;
		ck_m3_piece_info(ask->b, p, ask->conn->principal, 0, &infos[n++]);
	}
	ask->back = infos;
	ask->back_size = n * sizeof(infos[0]);
	return M3_OK;
}

int ck_m3_serve_quota(struct ck_m3_ask *ask, bool set)
{
	const char *name = ask->q->principal;
	struct ck_m3_principal *p = ask->conn->principal;

	if (name[0] && strcmp(name, p->name) != 0) {
		if (!ask->conn->trusted)
			return M3_EPERM;
		p = ck_m3_principal_get(ask->b, name);
	}
	if (!p)
		return M3_ENOMEM;
	if (set && !ask->conn->trusted)
		return M3_EPERM;
	if (set) {
		p->quota_bytes = ask->q->size;
		p->quota_regions = ask->q->count;
	}
	ask->reply.size = p->quota_bytes;
	ask->reply.count = p->quota_regions;
	ask->reply.used = p->bytes;
	ask->reply.used_count = p->regions;
	ck_m3_principal_check(ask->b, p);
	return M3_OK;
}

/* Workers do it once, after the hello. */
int ck_m3_serve_bill(struct ck_m3_ask *ask)
{
	struct ck_m3_principal *p;

	if (!ask->conn->trusted)
		return M3_EPERM;
	if (ask->conn->payer || !ask->q->principal[0])
		return M3_EINVAL;
	p = ck_m3_principal_get(ask->b, ask->q->principal);
	if (!p)
		return M3_ENOMEM;
	p->uses++;
	p->quota_bytes = ask->q->size;
	ask->conn->payer = p;
	return M3_OK;
}
