/*
 * m3/piece.c - pieces of device memory in the broker: creation, names, rights, quotas, release.
 *
 * A piece's memory goes back to the driver when its last reference is gone. Its charge stays until
 * each process that had the descriptor has released it or is known to be dead: until then the
 * driver itself keeps the memory for that process.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "m3/broker.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("m3");

#define SERIAL_BITS 48

struct ck_m3_principal *ck_m3_principal_get(struct ck_m3_broker *b, const char *name)
{
	struct ck_m3_principal *p = b->principals;

	while (p && strcmp(p->name, name) != 0)
		p = p->next;
	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	strncpy(p->name, name, sizeof(p->name) - 1);
	p->quota_bytes = b->options->quota_bytes;
	p->quota_regions = b->options->quota_regions;
	p->next = b->principals;
	b->principals = p;
	return p;
}

/* Quotas of its own are remembered. */
void ck_m3_principal_check(struct ck_m3_broker *b, struct ck_m3_principal *p)
{
	struct ck_m3_principal **at = &b->principals;

	if (p->sockets || p->uses || p->regions || p->quota_bytes != b->options->quota_bytes ||
	    p->quota_regions != b->options->quota_regions)
		return;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	free(p);
}

uint64_t ck_m3_number(struct ck_m3_broker *b)
{
	return b->epoch << SERIAL_BITS | ++b->serial;
}

/* --- making them */

int ck_m3_granularity(struct ck_m3_broker *b, int device, bool recommended, uint64_t *out)
{
	CUmemAllocationProp prop = ck_m3_prop(device, false);
	size_t granularity = 0;
	CUresult err = b->driver.cuMemGetAllocationGranularity(
		&granularity, &prop,
		recommended ? CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
			    : CU_MEM_ALLOC_GRANULARITY_MINIMUM);

	*out = granularity;
	return err || granularity == 0 ? ck_m3_status_of(err ? err : CUDA_ERROR_UNKNOWN) : M3_OK;
}

static int charge_quota(struct ck_m3_broker *b, struct ck_m3_principal *p, uint64_t size)
{
	uint64_t after;

	if ((p->quota_regions && p->regions >= p->quota_regions) ||
	    ck_add_overflow(p->bytes, size, &after) || (p->quota_bytes && after > p->quota_bytes))
		return M3_EQUOTA;
	if (p->quota_bytes && p->bytes < p->quota_bytes / 10 * 9 &&
	    after >= p->quota_bytes / 10 * 9)
		ck_m3_notify(b, M3_ON_QUOTA, NULL, p);
	p->bytes = after;
	p->regions++;
	return M3_OK;
}

static void refund_quota(struct ck_m3_principal *p, uint64_t size)
{
	if (!p)
		return;
	p->bytes -= size;
	p->regions--;
}

/* Charge both, or none. @payer: or NULL. */
static int charge_both(struct ck_m3_broker *b, struct ck_m3_principal *owner,
		       struct ck_m3_principal *payer, uint64_t size)
{
	int status = charge_quota(b, owner, size);

	if (status == M3_OK && payer)
		status = charge_quota(b, payer, size);
	else
		return status;
	if (status != M3_OK)
		refund_quota(owner, size);
	return status;
}

static int part_create(struct ck_m3_broker *b, int device, uint64_t size, bool rdma,
		       struct ck_m3_part *part)
{
	CUmemAllocationProp prop = ck_m3_prop(device, rdma);
	CUresult err = b->driver.cuMemCreate(&part->handle, size, &prop, 0);

	if (err) {
		ck_info("device %d: no %llu bytes: error %d", device, (unsigned long long)size,
			(int)err);
		return ck_m3_status_of(err);
	}
	err = b->driver.cuMemExportToShareableHandle(&part->fd, part->handle,
						     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	if (err) {
		ck_err("device %d: exporting memory: error %d", device, (int)err);
		b->driver.cuMemRelease(part->handle);
		return ck_m3_status_of(err);
	}
	part->device = device;
	return M3_OK;
}

/* Give the memory back to the driver. */
static void parts_release(struct ck_m3_broker *b, struct ck_m3_piece *p)
{
	for (unsigned int i = 0; i < p->part_count; i++) {
		close(p->parts[i].fd);
		b->driver.cuMemRelease(p->parts[i].handle);
	}
}

static int parts_create(struct ck_m3_broker *b, struct ck_m3_piece *p, const int *devices,
			unsigned int count, bool rdma)
{
	int status = M3_OK;

	while (p->part_count < count && status == M3_OK) {
		status = part_create(b, devices[p->part_count], p->part_size, rdma,
				     &p->parts[p->part_count]);
		p->part_count += status == M3_OK;
	}
	if (status != M3_OK)
		parts_release(b, p);
	return status;
}

int ck_m3_piece_create(struct ck_m3_broker *b, const struct ck_m3_conn *conn, const int *devices,
		       unsigned int count, uint64_t size, bool rdma, struct ck_m3_piece **out)
{
	struct ck_m3_piece **at = &b->pieces, *p = calloc(1, sizeof(*p));
	int status = p ? charge_both(b, conn->principal, conn->payer, size * count) : M3_ENOMEM;

	if (status == M3_OK) {
		p->part_size = size;
		status = parts_create(b, p, devices, count, rdma);
		if (status != M3_OK) {
			refund_quota(conn->principal, size * count);
			refund_quota(conn->payer, size * count);
		}
	}
	if (status != M3_OK) {
		free(p);
		return status;
	}
	p->rid = ck_m3_number(b);
	p->size = size * count;
	p->owner = conn->principal;
	p->payer = conn->payer;
	p->born_ms = ck_now_ms();
	for (unsigned int i = 0; i < count; i++)
		b->used[devices[i]] += size;
	while (*at)
		at = &(*at)->next;
	*at = p;
	*out = p;
	return M3_OK;
}

/* --- finding them */

struct ck_m3_piece *ck_m3_piece_find(struct ck_m3_broker *b, m3_rid rid, int *status)
{
	struct ck_m3_piece *p = b->pieces;

	*status = rid >> SERIAL_BITS == b->epoch ? M3_ENOENT : M3_ESTALE;
	while (p && (p->rid != rid || p->gone))
		p = p->next;
	return p;
}

struct ck_m3_piece *ck_m3_piece_named(struct ck_m3_broker *b, const char *name,
				      const struct ck_m3_principal *principal, bool own_only)
{
	struct ck_m3_piece *shared = NULL;

	for (struct ck_m3_piece *p = b->pieces; p; p = p->next) {
		if (p->gone || strcmp(p->name, name) != 0)
			continue;
		if (p->owner == principal)
			return p;
		if (!own_only && !shared && ck_m3_piece_access(p, principal))
			shared = p;
	}
	return shared;
}

/* Three bits of a mode to an access: to write is to read as well. */
static unsigned int access_of_bits(unsigned int bits)
{
	return bits & 2 ? M3_READWRITE : bits & 4 ? M3_READ : 0;
}

unsigned int ck_m3_piece_access(const struct ck_m3_piece *p,
				const struct ck_m3_principal *principal)
{
	unsigned int access = access_of_bits(p->owner == principal ? p->mode >> 6 : p->mode);

	for (const struct ck_m3_grant *g = p->grants; g; g = g->next) {
		if (g->principal == principal)
			access |= g->access;
	}
	return p->sealed ? access & M3_READ : access;
}

static uint32_t state_of(const struct ck_m3_piece *p)
{
	if (p->gone)
		return M3_DRAINING;
	if (p->creating)
		return M3_CREATING;
	if (p->unlinked)
		return M3_UNLINKED;
	return p->sealed ? M3_SEALED : M3_LIVE;
}

void ck_m3_piece_info(const struct ck_m3_broker *b, const struct ck_m3_piece *p,
		      const struct ck_m3_principal *principal, unsigned int part, m3_info *info)
{
	int device = p->parts[part].device;

	memset(info, 0, sizeof(*info));
	info->rid = p->rid;
	info->bytes = p->size;
	info->age_ms = (uint64_t)(ck_now_ms() - p->born_ms);
	info->device = device;
	info->stripes = p->part_count;
	info->refs = p->refs;
	info->maps = p->maps;
	info->state = state_of(p);
	info->mode = p->mode;
	info->flags = p->flags;
	info->access = ck_m3_piece_access(p, principal);
	info->handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	b->driver.cuDeviceGetUuid((CUuuid *)info->uuid, device);
	memcpy(info->owner, p->owner->name, sizeof(info->owner));
	memcpy(info->mem_id, p->name, sizeof(info->mem_id));
}

/* --- their end */

static void piece_free(struct ck_m3_broker *b, struct ck_m3_piece *p)
{
	struct ck_m3_piece **at = &b->pieces;
	struct ck_m3_grant *next;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	for (unsigned int i = 0; i < p->part_count; i++)
		b->used[p->parts[i].device] -= p->part_size;
	for (struct ck_m3_grant *g = p->grants; g; g = next) {
		next = g->next;
		g->principal->uses--;
		ck_m3_principal_check(b, g->principal);
		free(g);
	}
	refund_quota(p->owner, p->size); /* now: a grant may be to the owner */
	ck_m3_principal_check(b, p->owner);
	refund_quota(p->payer, p->size);
	if (p->payer)
		ck_m3_principal_check(b, p->payer);
	free(p);
	b->changed = true;
}

void ck_m3_piece_check(struct ck_m3_broker *b, struct ck_m3_piece *p)
{
	if (p->refs || p->detached || p->jobs)
		return;
	if (!p->gone) {
		ck_m3_notify(b, M3_ON_REGION_LOST, p, NULL);
		p->gone = true;
		parts_release(b, p);
		p->name[0] = '\0';
		b->changed = true;
	}
	if (p->draining == 0)
		piece_free(b, p);
}
