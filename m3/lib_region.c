/*
 * m3/lib_region.c - libm3: make and open regions; names, rights and leases.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "m3/lib.h"
#include "util/util.h"

/* --- regions of this process */

static m3_region *region_new(m3_client *c, const struct ck_m3_reply *reply, uint64_t alignment)
{
	m3_region *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	pthread_mutex_init(&r->lock, NULL);
	r->client = c;
	r->refs = 1;
	r->rid = reply->region;
	r->size = reply->size;
	r->alignment = alignment;
	r->access = reply->access;
	r->stripes = reply->info.stripes;
	r->devices[0] = ck_m3_own_device(c, reply->info.uuid, reply->info.device);
	pthread_mutex_lock(&c->lock);
	r->generation = c->generation;
	c->refs++;
	r->next = c->regions;
	r->at = &c->regions;
	if (r->next)
		r->next->at = &r->next;
	c->regions = r;
	pthread_mutex_unlock(&c->lock);
	return r;
}

static void region_free(m3_region *r)
{
	m3_client *c = r->client;

	if (r->event)
		c->driver.cuEventDestroy_v2(r->event);
	pthread_mutex_lock(&c->lock);
	*r->at = r->next;
	if (r->next)
		r->next->at = r->at;
	pthread_mutex_unlock(&c->lock);
	pthread_mutex_destroy(&r->lock);
	free(r);
	ck_m3_client_put(c);
}

/* Where the other parts of a striped region are. */
static int find_parts(m3_region *r)
{
	struct ck_m3_request q;
	struct ck_m3_reply reply;
	int status = r->stripes > 0 && r->stripes <= M3_DEVICES_MAX ? M3_OK : M3_EPROTO;

	for (unsigned int i = 1; status == M3_OK && i < r->stripes; i++) {
		ck_m3_request_init(&q, CK_M3_STAT);
		q.value = i;
		status = ck_m3_call(r->client, r, &q, NULL, &reply, NULL);
		r->devices[i] = ck_m3_own_device(r->client, reply.info.uuid, reply.info.device);
	}
	return status;
}

/* A plain question about a region. */
static int send_region_request(const m3_region *r, enum ck_m3_op op, unsigned int access,
			       unsigned int value)
{
	struct ck_m3_request q;

	if (!r)
		return M3_EINVAL;
	ck_m3_request_init(&q, op);
	q.access = access;
	q.value = value;
	return ck_m3_call(r->client, r, &q, NULL, NULL, NULL);
}

/*
 * Release one reference. @undo: if this client made the region and no other has it, remove it as if
 * it had never been made.
 */
static int let_go(m3_region *r, bool undo)
{
	int status;

	if (__atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return send_region_request(r, CK_M3_RELEASE, 0, undo);
	ck_m3_unmap_all(r);
	status = send_region_request(r, CK_M3_RELEASE, 0, undo);
	region_free(r);
	return status == M3_ESTALE ? M3_OK : status; /* there is nothing left to release */
}

static int open_as_asked(m3_client *c, struct ck_m3_request *q, uint64_t alignment,
			 m3_region **region)
{
	struct ck_m3_request undo;
	struct ck_m3_reply reply;
	int status = ck_m3_call(c, NULL, q, NULL, &reply, NULL);

	if (status != M3_OK)
		return status;
	*region = region_new(c, &reply, alignment);
	if (*region) {
		status = find_parts(*region);
		if (status == M3_OK)
			return M3_OK;
		let_go(*region, true);
		*region = NULL;
		return status;
	}
	ck_m3_request_init(&undo, CK_M3_RELEASE);
	undo.region = reply.region;
	undo.value = 1;
	ck_m3_call(c, NULL, &undo, NULL, NULL, NULL);
	return M3_ENOMEM;
}

/* The name into a request; NULL is no name where that is allowed. */
static int name_region(struct ck_m3_request *q, const char *mem_id, bool required)
{
	if (!mem_id)
		return required ? M3_EINVAL : M3_OK;
	if (strlen(mem_id) >= sizeof(q->name) || !ck_m3_text_ok(mem_id, sizeof(q->name), 1))
		return M3_EINVAL;
	strcpy(q->name, mem_id);
	return M3_OK;
}

int m3_alloc(m3_client *c, const m3_alloc_req *req, m3_region **region)
{
	struct ck_m3_request q;
	unsigned int access;
	int status;

	if (!c || !req || !region || (req->alignment & (req->alignment - 1)))
		return M3_EINVAL;
	ck_m3_request_init(&q, CK_M3_ALLOC);
	access = req->access ? (unsigned int)req->access : M3_READWRITE;
	q.size = req->bytes;
	q.flags = req->flags;
	q.mode = req->mode;
	q.access = access;
	q.policy = (uint32_t)req->policy;
	q.count = req->stripes;
	status = name_region(&q, req->mem_id, false);
	if (status == M3_OK)
		status = ck_m3_name_device(c, req->device, &q);
	if (status == M3_OK)
		status = open_as_asked(c, &q, req->alignment, region);
	if (status != M3_OK || (req->flags & M3_NO_MAP) || !c->has_driver)
		return status;
	status = m3_map(*region, M3_ANY_DEVICE, (int)access, 0, NULL);
	if (status != M3_OK) {
		let_go(*region, true);
		*region = NULL;
	}
	return status;
}

int m3_open(m3_client *c, const char *mem_id, int access, m3_region **region)
{
	struct ck_m3_request q;
	int status;

	if (!c || !region || (access != M3_READ && access != M3_READWRITE))
		return M3_EINVAL;
	ck_m3_request_init(&q, CK_M3_OPEN);
	q.access = (uint32_t)access;
	status = name_region(&q, mem_id, true);
	return status ? status : open_as_asked(c, &q, 0, region);
}

int m3_open_id(m3_client *c, m3_rid rid, int access, m3_region **region)
{
	struct ck_m3_request q;

	if (!c || !region || !rid || (access != M3_READ && access != M3_READWRITE))
		return M3_EINVAL;
	ck_m3_request_init(&q, CK_M3_OPEN);
	q.access = (uint32_t)access;
	q.region = rid;
	return open_as_asked(c, &q, 0, region);
}

m3_rid m3_region_id(const m3_region *r)
{
	return r ? r->rid : 0;
}

uint64_t m3_region_size(const m3_region *r)
{
	return r ? r->size : 0;
}

int m3_region_device(const m3_region *r, unsigned int stripe)
{
	return r && stripe < r->stripes ? r->devices[stripe] : M3_EINVAL;
}

int m3_retain(m3_region *r)
{
	int status = send_region_request(r, CK_M3_RETAIN, 0, 0);

	if (status == M3_OK)
		__atomic_fetch_add(&r->refs, 1, __ATOMIC_RELAXED);
	return status;
}

int m3_release(m3_region *r)
{
	return r ? let_go(r, false) : M3_OK;
}

/* --- names, rights, leases */

int m3_unlink(m3_client *c, const char *mem_id)
{
	struct ck_m3_request q;
	int status;

	if (!c)
		return M3_EINVAL;
	ck_m3_request_init(&q, CK_M3_UNLINK);
	status = name_region(&q, mem_id, true);
	return status ? status : ck_m3_call(c, NULL, &q, NULL, NULL, NULL);
}

int m3_seal(m3_region *r)
{
	int status = send_region_request(r, CK_M3_SEAL, 0, 0);

	if (status != M3_OK)
		return status;
	pthread_mutex_lock(&r->lock);
	r->access = M3_READ;
	status = ck_m3_read_only(r);
	pthread_mutex_unlock(&r->lock);
	return status;
}

/*
 * A session has one connection to the broker, which all its threads use: so it does not wait there,
 * but asks again.
 */
static int lease_in_turns(m3_region *r, unsigned int access, unsigned int timeout_ms)
{
	unsigned int waited = 0, step = 1;
	int status;

	while ((status = send_region_request(r, CK_M3_LEASE, access, 0)) == M3_EBUSY &&
	       waited < timeout_ms) {
		step = ck_min(step * 2, ck_min(20u, timeout_ms - waited));
		nanosleep(&(struct timespec){.tv_nsec = step * 1000000l}, NULL);
		waited += step;
	}
	return status == M3_EBUSY && timeout_ms ? M3_ETIMEDOUT : status;
}

int m3_lease(m3_region *r, int kind, unsigned int timeout_ms)
{
	unsigned int access = kind == M3_LEASE_RO ? M3_READ : M3_READWRITE;

	if (!r || (kind != M3_LEASE_RO && kind != M3_LEASE_RW))
		return M3_EINVAL;
	return r->client->shim ? lease_in_turns(r, access, timeout_ms)
			       : send_region_request(r, CK_M3_LEASE, access, timeout_ms);
}

int m3_unlease(m3_region *r)
{
	return send_region_request(r, CK_M3_UNLEASE, 0, 0);
}

int m3_chmod(m3_region *r, unsigned int mode)
{
	struct ck_m3_request q;

	if (!r)
		return M3_EINVAL;
	ck_m3_request_init(&q, CK_M3_CHMOD);
	q.mode = mode;
	return ck_m3_call(r->client, r, &q, NULL, NULL, NULL);
}

static int grant_access(m3_region *r, const char *principal, unsigned int access)
{
	struct ck_m3_request q;

	if (!r || !principal || !ck_m3_text_ok(principal, sizeof(q.principal), 1))
		return M3_EINVAL;
	ck_m3_request_init(&q, CK_M3_GRANT);
	strcpy(q.principal, principal);
	q.access = access;
	return ck_m3_call(r->client, r, &q, NULL, NULL, NULL);
}

int m3_grant(m3_region *r, const char *principal, int access)
{
	return access == M3_READ || access == M3_READWRITE
		       ? grant_access(r, principal, (unsigned int)access)
		       : M3_EINVAL;
}

int m3_revoke(m3_region *r, const char *principal)
{
	return grant_access(r, principal, 0);
}
