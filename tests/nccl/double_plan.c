/*
 * tests/nccl/double_plan.c - operations of one communicator in one stream, as one host function. On
 * the emulated GPU an address on the device is one of the process.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/double.h"

CUresult cuLaunchHostFunc(CUstream stream, void (*fn)(void *), void *data);

struct plan {
	int count;
	struct work *works;
};

size_t size_of(int type)
{
	static const unsigned char sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	return sizes[type];
}

/* --- reductions: in double for all types, which is exact for what the tests add */

static double load(const char *at, int type)
{
	union {
		float f;
		double d;
		int32_t i;
		int64_t l;
		int8_t c;
	} v;

	memcpy(&v, at, size_of(type));
	return type == ncclFloat32   ? v.f
	       : type == ncclFloat64 ? v.d
	       : type == ncclInt32   ? v.i
	       : type == ncclInt8    ? v.c
				     : (double)v.l;
}

static void store(char *at, int type, double x)
{
	float f = (float)x;
	int32_t i = (int32_t)x;
	int64_t l = (int64_t)x;
	int8_t c = (int8_t)x;
	const void *from = type == ncclFloat32	 ? (void *)&f
			   : type == ncclFloat64 ? (void *)&x
			   : type == ncclInt32	 ? (void *)&i
			   : type == ncclInt8	 ? (void *)&c
						 : (void *)&l;

	memcpy(at, from, size_of(type));
}

static double combine(int op, double a, double b)
{
	switch (op) {
	case ncclProd:
		return a * b;
	case ncclMax:
		return fmax(a, b);
	case ncclMin:
		return fmin(a, b);
	default:
		return a + b;
	}
}

/* Each rank sends its operands to rank 0, which sends results back: @all of them, or each rank its
 * part. */
static int reduce(const struct work *w, size_t count, bool all, int root)
{
	struct mesh *m = &w->comm->mesh;
	size_t size = size_of(w->type), bytes = count * size,
	       part = all ? bytes : bytes / (size_t)m->ranks;
	char *sum = malloc(bytes ? bytes : 1), *other = malloc(bytes ? bytes : 1);
	double scale = w->op >= ncclNumOps ? w->comm->scales[w->op - ncclNumOps] : 1;
	int ret = 0;

	for (size_t i = 0; i < count; i++)
		store(sum + i * size, w->type, load(w->send + i * size, w->type) * scale);
	if (m->rank != 0)
		ret = mesh_send(m, 0, 0, sum, bytes);
	for (int r = 1; !ret && m->rank == 0 && r < m->ranks; r++) {
		ret = mesh_recv(m, 0, r, other, bytes);
		for (size_t i = 0; !ret && i < count; i++)
			store(sum + i * size, w->type,
			      combine(w->op, load(sum + i * size, w->type),
				      load(other + i * size, w->type)));
	}
	for (size_t i = 0; m->rank == 0 && w->op == ncclAvg && i < count; i++)
		store(sum + i * size, w->type, load(sum + i * size, w->type) / m->ranks);
	for (int r = 1; !ret && m->rank == 0 && r < m->ranks; r++)
		ret = mesh_send(m, 0, r, sum + (all ? 0 : part * (size_t)r), part);
	if (!ret && m->rank != 0)
		ret = mesh_recv(m, 0, 0, sum, part);
	if (!ret && (root < 0 || root == m->rank))
		memcpy(w->recv, sum, part);
	free(sum);
	free(other);
	return ret;
}

static int broadcast(const struct work *w)
{
	struct mesh *m = &w->comm->mesh;
	size_t bytes = w->count * size_of(w->type);
	int ret = 0;

	if (m->rank != w->root)
		return mesh_recv(m, 0, w->root, w->recv, bytes);
	for (int r = 0; !ret && r < m->ranks; r++) {
		if (r != m->rank)
			ret = mesh_send(m, 0, r, w->send, bytes);
	}
	if (w->recv != w->send)
		memcpy(w->recv, w->send, bytes);
	return ret;
}

/* --- point to point: sends have threads, so that each side may begin with either */

struct sending {
	struct mesh *mesh;
	int peer, ret;
	const char *bytes;
	size_t size;
	pthread_t thread;
};

static void *send_all(void *arg)
{
	struct sending *s = arg;

	s->ret = mesh_send(s->mesh, 0, s->peer, s->bytes, s->size);
	return NULL;
}

/* Block i of @send goes to rank i, block i of @recv comes from it; NULL: none. */
static int exchange(struct mesh *m, const char *send, char *recv, size_t block, int only)
{
	struct sending *s = calloc((size_t)m->ranks, sizeof(*s));
	char *own = NULL;
	int ret = 0;

	if (send && recv) { /* in place: the own block stays */
		own = malloc(block ? block : 1);
		memcpy(own, send + (size_t)m->rank * block, block);
	}
	for (int r = 0; send && r < m->ranks; r++) {
		if (r == m->rank || (only >= 0 && r != only))
			continue;
		s[r] = (struct sending){.mesh = m,
					.peer = r,
					.bytes = send + (only >= 0 ? 0 : (size_t)r * block),
					.size = block};
		pthread_create(&s[r].thread, NULL, send_all, &s[r]);
	}
	for (int r = 0; recv && r < m->ranks; r++) {
		if (r != m->rank && (only < 0 || r == only))
			ret |= mesh_recv(m, 0, r, recv + (only >= 0 ? 0 : (size_t)r * block),
					 block);
	}
	for (int r = 0; r < m->ranks; r++) {
		if (s[r].mesh) {
			pthread_join(s[r].thread, NULL);
			ret |= s[r].ret;
		}
	}
	if (own && only < 0)
		memcpy(recv + (size_t)m->rank * block, own, block);
	free(own);
	free(s);
	return ret;
}

static int all_gather(const struct work *w)
{
	struct mesh *m = &w->comm->mesh;
	size_t block = w->count * size_of(w->type);
	char *copies = malloc(block * (size_t)m->ranks + 1);
	int ret;

	for (int r = 0; r < m->ranks; r++)
		memcpy(copies + (size_t)r * block, w->send, block);
	ret = exchange(m, copies, w->recv, block, -1);
	free(copies);
	return ret;
}

static int gather(const struct work *w, bool out)
{
	struct mesh *m = &w->comm->mesh;
	size_t block = w->count * size_of(w->type);
	bool is_root = m->rank == w->root;
	int ret;

	if (!is_root)
		return exchange(m, out ? NULL : w->send, out ? w->recv : NULL, block, w->root);
	ret = exchange(m, out ? w->send : NULL, out ? NULL : w->recv, block, -1);
	memmove(out ? w->recv : w->recv + (size_t)m->rank * block,
		out ? w->send + (size_t)m->rank * block : w->send, block);
	return ret;
}

static int one(const struct work *w)
{
	switch (w->what) {
	case CK_NCCL_OP_ALLREDUCE:
		return reduce(w, w->count, true, -1);
	case CK_NCCL_OP_REDUCE:
		return reduce(w, w->count, true, w->root);
	case CK_NCCL_OP_REDUCESCATTER:
		return reduce(w, w->count * (size_t)w->comm->mesh.ranks, false, -1);
	case CK_NCCL_OP_BROADCAST:
	case CK_NCCL_OP_BCAST:
		return broadcast(w);
	case CK_NCCL_OP_ALLGATHER:
		return all_gather(w);
	case CK_NCCL_OP_ALLTOALL:
		return exchange(&w->comm->mesh, w->send, w->recv, w->count * size_of(w->type), -1);
	case CK_NCCL_OP_GATHER:
	case CK_NCCL_OP_SCATTER:
		return gather(w, w->what == CK_NCCL_OP_SCATTER);
	default:
		return -1;
	}
}

static bool is_pairwise(const struct work *w)
{
	return w->what == CK_NCCL_OP_SEND || w->what == CK_NCCL_OP_RECV;
}

static int run_pairs(const struct work *w, int count)
{
	struct sending *s = calloc((size_t)count, sizeof(*s));
	int ret = 0;

	for (int i = 0; i < count; i++) {
		if (w[i].what != CK_NCCL_OP_SEND)
			continue;
		s[i] = (struct sending){.mesh = &w[i].comm->mesh,
					.peer = w[i].root,
					.bytes = w[i].send,
					.size = w[i].count * size_of(w[i].type)};
		pthread_create(&s[i].thread, NULL, send_all, &s[i]);
	}
	for (int i = 0; i < count; i++) {
		if (w[i].what == CK_NCCL_OP_RECV)
			ret |= mesh_recv(&w[i].comm->mesh, 0, w[i].root, w[i].recv,
					 w[i].count * size_of(w[i].type));
	}
	for (int i = 0; i < count; i++) {
		if (s[i].mesh) {
			pthread_join(s[i].thread, NULL);
			ret |= s[i].ret;
		}
	}
	free(s);
	return ret;
}

static void run(void *arg)
{
	struct plan *p = arg;
	ncclComm_t c = p->works[0].comm;
	int ret = 0;

	for (int i = 0; i < p->count && !ret;) {
		int pairs = 0;

		while (i + pairs < p->count && is_pairwise(&p->works[i + pairs]))
			pairs++;
		ret = pairs ? run_pairs(&p->works[i], pairs) : one(&p->works[i]);
		i += pairs ? pairs : 1;
	}
	if (ret)
		atomic_store(&c->error, ncclRemoteError);
	pthread_mutex_lock(&c->lock);
	c->plans--;
	pthread_cond_broadcast(&c->idle);
	pthread_mutex_unlock(&c->lock);
	free(p->works);
	free(p);
}

ncclResult_t plan_launch(struct work *works, int count)
{
	struct plan *p = malloc(sizeof(*p));
	ncclComm_t c = works[0].comm;

	*p = (struct plan){.count = count, .works = works};
	pthread_mutex_lock(&c->lock);
	c->plans++;
	pthread_mutex_unlock(&c->lock);
	return cuLaunchHostFunc(works[0].stream, run, p) == CUDA_SUCCESS ? ncclSuccess
									 : ncclUnhandledCudaError;
}
