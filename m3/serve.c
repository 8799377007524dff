/*
 * m3/serve.c - requests: judging them, those about no region in particular, and answers.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "m3/broker.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("m3");

#define CONNECTIONS_MAX 1024 /* of one principal */
#define ECHO_MAX 4096

/* --- answers */

/* A client that does not read its answers has no use for them. */
void ck_m3_answer(struct ck_m3_broker *b, struct ck_m3_conn *conn, const struct ck_m3_reply *reply,
		  const void *data, size_t size, int fd)
{
	struct ck_m3_reply r = *reply;

	r.magic = CK_M3_MAGIC;
	r.version = CK_M3_VERSION;
	r.epoch = b->epoch;
	r.data_size = (uint32_t)size;
	if (conn->fd >= 0 && !conn->closing &&
	    ck_m3_send(conn->fd, &r, sizeof(r), data, size, fd, MSG_DONTWAIT) < 0)
		conn->closing = true;
}

void ck_m3_notify(struct ck_m3_broker *b, unsigned int event, const struct ck_m3_piece *piece,
		  const struct ck_m3_principal *principal)
{
	struct ck_m3_reply r = {
		.op = CK_M3_SUBSCRIBE, .count = event, .region = piece ? piece->rid : 0};

	for (struct ck_m3_conn *c = b->conns; c; c = c->next) {
		if ((c->events & event) && (!principal || c->principal == principal) &&
		    (!piece || ck_m3_piece_access(piece, c->principal)))
			ck_m3_answer(b, c, &r, NULL, 0, -1);
	}
}

/* --- who it is */

/*
 * The device that a request names, by UUID or by the broker's number; -1: none, M3_EINVAL: unknown.
 */
static int device_of(const struct ck_m3_broker *b, const struct ck_m3_request *q, int *device)
{
	static const unsigned char none[16];

	*device = q->device;
	if (memcmp(q->uuid, none, sizeof(none)) != 0) {
		*device = ck_m3_driver_device(&b->driver, q->uuid);
		return *device < 0 ? M3_EINVAL : M3_OK;
	}
	return q->device >= -1 && q->device < b->driver.device_count ? M3_OK : M3_EINVAL;
}

static int serve_hello(struct ck_m3_ask *ask)
{
	struct ck_m3_conn *conn = ask->conn;
	struct ck_m3_principal *p = conn->principal;
	int status;

	if (conn->greeted)
		return M3_EPROTO;
	if (ask->q->principal[0] && strcmp(ask->q->principal, p->name) != 0) {
		if (!conn->trusted)
			return M3_EPERM;
		p = ck_m3_principal_get(ask->b, ask->q->principal);
	}
	if (!p)
		return M3_ENOMEM;
	status = device_of(ask->b, ask->q, &conn->device);
	if (status != M3_OK)
		return status;
	if (p->connections >= CONNECTIONS_MAX)
		return M3_EBUSY;
	p->connections++;
	conn->principal = p;
	conn->greeted = true;
	memcpy(ask->reply.info.owner, p->name, sizeof(p->name));
	return M3_OK;
}

static int serve_register(struct ck_m3_ask *ask)
{
	if (ask->conn->registered)
		return M3_EDUPLICATE;
	ask->conn->registered = true;
	ck_info("%s pid %d registers as '%s'", ask->conn->principal->name, (int)ask->conn->pid,
		ask->q->name);
	return M3_OK;
}

static int serve_deregister(struct ck_m3_ask *ask)
{
	if (!ask->conn->registered)
		return M3_ENOENT;
	ask->conn->registered = false;
	return M3_OK;
}

/* --- sizes and devices */

/* What @bytes become on @device: rounded up, 0 as 1; M3_EINVAL where that wraps around. */
static int round_size(struct ck_m3_broker *b, int device, uint64_t bytes, bool recommended,
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

static int serve_round(struct ck_m3_ask *ask)
{
	int device, status = device_of(ask->b, ask->q, &device);

	if (status != M3_OK)
		return status;
	if (device < 0)
		device = ck_max(ask->conn->device, 0);
	return round_size(ask->b, device, ask->q->size, ask->q->flags & M3_RECOMMENDED,
			  &ask->reply.size, &ask->reply.count);
}

static int attribute(struct ck_m3_broker *b, CUdevice_attribute which, int device)
{
	int value = 0;

	if (b->driver.cuDeviceGetAttribute)
		b->driver.cuDeviceGetAttribute(&value, which, device);
	return value;
}

static uint64_t device_bytes(const struct ck_m3_broker *b, int device)
{
	size_t bytes = 0;

	if (b->driver.cuDeviceTotalMem_v2)
		b->driver.cuDeviceTotalMem_v2(&bytes, device);
	return bytes;
}

static bool reaches(const struct ck_m3_broker *b, int from, int to)
{
	int can = 0;

	return from == to ||
	       (b->driver.cuDeviceCanAccessPeer &&
		b->driver.cuDeviceCanAccessPeer(&can, from, to) == CUDA_SUCCESS && can);
}

static int serve_topology(struct ck_m3_ask *ask)
{
	static m3_topo topo;
	struct ck_m3_broker *b = ask->b;
	int atomics;

	memset(&topo, 0, sizeof(topo));
	topo.count = b->driver.device_count;
	for (int i = 0; i < topo.count; i++) {
		struct m3_topo_device *d = &topo.devices[i];

		d->device = i;
		d->vmm = attribute(b, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, i);
		d->fd = attribute(
			b, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, i);
		d->fabric = attribute(b, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, i);
		d->bytes = device_bytes(b, i);
		d->used = b->used[i];
		b->driver.cuDeviceGetUuid((CUuuid *)d->uuid, i);
		for (int j = 0; j < topo.count; j++) {
			atomics = 0;
			if (j == i || !reaches(b, i, j))
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

/* --- making a region */

static int most_free(const struct ck_m3_broker *b)
{
	int best = 0;

	for (int i = 1; i < b->driver.device_count; i++) {
		if (device_bytes(b, i) - b->used[i] > device_bytes(b, best) - b->used[best])
			best = i;
	}
	return best;
}

static int peer_of(const struct ck_m3_broker *b, int device, int *out)
{
	for (int i = 0; i < b->driver.device_count; i++) {
		if (i != device && reaches(b, device, i)) {
			*out = i;
			return M3_OK;
		}
	}
	return M3_ENOPEER;
}

static int place(struct ck_m3_ask *ask, int wanted, int *device)
{
	*device = wanted >= 0 ? wanted : ck_max(ask->conn->device, 0);
	switch (ask->q->policy) {
	case M3_EXPLICIT:
		return M3_OK;
	case M3_SAME_AS_CALLER:
		*device = ck_max(ask->conn->device, 0);
		return M3_OK;
	case M3_MOST_FREE:
		*device = most_free(ask->b);
		return M3_OK;
	case M3_PEER_OF:
		return peer_of(ask->b, *device, device);
	case M3_STRIPED:
		return M3_ENOTSUP;
	default:
		return M3_EINVAL;
	}
}

/* Attach to a region that is there; the question waits as long as it is being made. */
static int attach(struct ck_m3_ask *ask, struct ck_m3_piece *p, unsigned int wanted)
{
	unsigned int allowed = ck_m3_piece_access(p, ask->conn->principal);

	if (!allowed)
		return M3_ENOENT; /* nobody is told what there is that he may not have */
	if ((wanted & allowed) != wanted)
		return M3_EPERM;
	if (p->creating)
		return CK_M3_LATER;
	if (!ck_m3_hold_add(ask->conn, p, wanted))
		return M3_ENOMEM;
	ask->reply.region = p->rid;
	ask->reply.size = p->size;
	ask->reply.access = wanted;
	ck_m3_piece_info(ask->b, p, ask->conn->principal, &ask->reply.info);
	return M3_OK;
}

static int attach_matching(struct ck_m3_ask *ask, struct ck_m3_piece *p, int device,
			   unsigned int access)
{
	uint64_t rounded, granularity;
	int status;

	if (ask->q->flags & M3_EXCL)
		return M3_EEXIST;
	if (ask->q->size || !(ask->q->flags & M3_ATTACH_ONLY)) {
		status = round_size(ask->b, p->device, ask->q->size, false, &rounded, &granularity);
		if (status != M3_OK || rounded != p->size)
			return status ? status : M3_EMISMATCH;
	}
	if (device >= 0 && ask->q->policy == M3_EXPLICIT && device != p->device)
		return M3_EMISMATCH;
	return attach(ask, p, access);
}

/*
 * New memory, which somebody else's bytes may be in: it is told of when it has been filled with
 * zeros.
 */
static int create(struct ck_m3_ask *ask, int device)
{
	const struct ck_m3_request *q = ask->q;
	struct ck_m3_piece *p;
	uint64_t rounded, granularity;
	int status = place(ask, device, &device);

	if (status == M3_OK)
		status = round_size(ask->b, device, q->size, false, &rounded, &granularity);
	if (status == M3_OK)
		status = ck_m3_piece_create(ask->b, ask->conn->principal, device, rounded,
					    q->flags & M3_RDMA, &p);
	if (status != M3_OK)
		return status;
	memcpy(p->name, q->name, sizeof(p->name));
	p->mode = q->mode ? q->mode : 0600;
	p->flags = q->flags & (M3_SEALABLE | M3_RDMA | M3_DETACHED);
	p->detached = q->flags & M3_DETACHED;
	status = attach(ask, p, M3_READWRITE);
	if (status == M3_OK) {
		p->creating = true;
		status = ck_m3_copier_submit(ask->b, ask, p, NULL);
	}
	if (status < 0) {
		p->detached = p->creating = false;
		if (ask->conn->holds && ask->conn->holds->piece == p)
			ck_m3_hold_release(ask->b, ask->conn, ask->conn->holds);
		else
			ck_m3_piece_check(ask->b, p);
	}
	return status;
}

int ck_m3_serve_alloc(struct ck_m3_ask *ask)
{
	const struct ck_m3_request *q = ask->q;
	unsigned int access = q->access ? q->access : M3_READWRITE;
	bool attach_only = q->flags & M3_ATTACH_ONLY;
	struct ck_m3_piece *p = NULL;
	int device, status = device_of(ask->b, q, &device);

	if (status != M3_OK)
		return status;
	if ((attach_only && (q->flags & M3_EXCL || !q->name[0])) || q->mode & ~0777u ||
	    q->policy > M3_STRIPED)
		return M3_EINVAL;
	if (q->name[0]) /* what is made under a name is one's own, whatever others share */
		p = ck_m3_piece_named(ask->b, q->name, ask->conn->principal, !attach_only);
	if (p)
		return attach_matching(ask, p, device, access);
	return attach_only ? M3_ENOENT : create(ask, device);
}

int ck_m3_serve_open(struct ck_m3_ask *ask)
{
	const struct ck_m3_request *q = ask->q;
	struct ck_m3_piece *p;
	int status = M3_ENOENT;

	if (q->name[0])
		p = ck_m3_piece_named(ask->b, q->name, ask->conn->principal, false);
	else
		p = ck_m3_piece_find(ask->b, q->region, &status);
	return p ? attach(ask, p, q->access ? q->access : M3_READWRITE) : status;
}

static int serve_unlink(struct ck_m3_ask *ask)
{
	struct ck_m3_piece *p =
		ck_m3_piece_named(ask->b, ask->q->name, ask->conn->principal, false);

	if (!p)
		return M3_ENOENT;
	if (p->owner != ask->conn->principal)
		return M3_EPERM;
	p->name[0] = '\0';
	p->unlinked = true;
	p->detached = false;
	ck_m3_piece_check(ask->b, p);
	return M3_OK;
}

/* --- lists and quotas */

static int serve_list(struct ck_m3_ask *ask)
{
	static m3_info infos[CK_M3_DATA_MAX / sizeof(m3_info)];
	const struct ck_m3_request *q = ask->q;
	size_t n = 0, prefix = strlen(q->name);
	const struct ck_m3_piece *p;

	for (p = ask->b->pieces; p && n < CK_ARRAY_SIZE(infos); p = p->next) {
		if (p->rid <= q->from || p->fd < 0 || strncmp(p->name, q->name, prefix) != 0 ||
		    !ck_m3_piece_access(p, ask->conn->principal))
			continue;
		ck_m3_piece_info(ask->b, p, ask->conn->principal, &infos[n++]);
	}
	ask->back = infos;
	ask->back_size = n * sizeof(infos[0]);
	return M3_OK;
}

static int serve_quota(struct ck_m3_ask *ask, bool set)
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
	return M3_OK;
}

/* --- all of them */

static int serve_general(struct ck_m3_ask *ask)
{
	switch (ask->q->op) {
	case CK_M3_ECHO:
		ask->back = ask->data;
		ask->back_size = ck_min(ask->q->data_size, (uint32_t)ECHO_MAX);
		return M3_OK;
	case CK_M3_HALT:
		ask->b->stop = ask->conn->trusted;
		return ask->conn->trusted ? M3_OK : M3_EPERM;
	case CK_M3_REGISTER:
		return serve_register(ask);
	case CK_M3_DEREGISTER:
		return serve_deregister(ask);
	case CK_M3_ROUND:
		return serve_round(ask);
	case CK_M3_ALLOC:
		return ck_m3_serve_alloc(ask);
	case CK_M3_OPEN:
		return ck_m3_serve_open(ask);
	case CK_M3_UNLINK:
		return serve_unlink(ask);
	case CK_M3_LIST:
		return serve_list(ask);
	case CK_M3_QUOTA_GET:
	case CK_M3_QUOTA_SET:
		return serve_quota(ask, ask->q->op == CK_M3_QUOTA_SET);
	case CK_M3_TOPOLOGY:
		return serve_topology(ask);
	case CK_M3_SUBSCRIBE:
		ask->conn->events = ask->q->value;
		return M3_OK;
	case CK_M3_DEPOSIT:
	case CK_M3_CLAIM:
	case CK_M3_WITHDRAW:
		return ck_m3_serve_deposit(ask);
	default:
		return ck_m3_serve_region(ask);
	}
}

static void run(struct ck_m3_ask *ask)
{
	struct ck_m3_conn *conn = ask->conn;
	int status;

	if (ask->q->op == CK_M3_HELLO)
		status = serve_hello(ask);
	else
		status = conn->greeted ? serve_general(ask) : M3_EPROTO;
	if (status == CK_M3_LATER) {
		if (!conn->job && !conn->parked) {
			conn->parked = true;
			conn->question = *ask->q;
			conn->deadline = ck_m3_now() + ask->q->value;
		}
		return;
	}
	conn->parked = false;
	if (status == CK_M3_ANSWERED)
		return;
	ask->reply.status = status;
	ck_m3_answer(ask->b, conn, &ask->reply, status ? NULL : ask->back,
		     status ? 0 : ask->back_size, status ? -1 : ask->back_fd);
}

void ck_m3_serve(struct ck_m3_broker *b, struct ck_m3_conn *conn, const struct ck_m3_question *q,
		 size_t size, int fd)
{
	struct ck_m3_ask ask = {
		.b = b, .conn = conn, .q = &q->head, .data = q->data, .fd = fd, .back_fd = -1};
	int status = ck_m3_request_check(q, size);

	ask.reply.op = size >= sizeof(q->head) ? q->head.op : 0;
	if (status == M3_OK) {
		run(&ask);
	} else {
		ask.reply.status = status;
		ck_m3_answer(b, conn, &ask.reply, NULL, 0, -1);
		conn->closing = status == M3_EPROTO;
	}
	if (ask.fd >= 0)
		close(ask.fd);
}

void ck_m3_serve_again(struct ck_m3_broker *b, struct ck_m3_conn *conn)
{
	struct ck_m3_request q = conn->question;
	struct ck_m3_ask ask = {.b = b,
				.conn = conn,
				.q = &q,
				.data = (const unsigned char *)"",
				.fd = -1,
				.back_fd = -1,
				.again = true};

	ask.reply.op = q.op;
	run(&ask);
}
