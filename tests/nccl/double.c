/* tests/nccl/double.c - the functions of the test double of NCCL. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl/double.h"

#define EXPORT __attribute__((visibility("default")))
#define GROUP_MAX 4096

CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetDevice(CUdevice *device);

static char last_error[256];

static ncclResult_t fail(ncclResult_t result, const char *text)
{
	snprintf(last_error, sizeof(last_error), "%s", text);
	return result;
}

/* --- what waits: in a group, or in a thread of its own */

struct job {
	ncclComm_t comm, parent;
	ncclUniqueId id;
	int ranks, rank, color, key;
	ncclComm_t *out;
	ncclResult_t result;
	pthread_t thread;
};

static __thread struct {
	int depth, jobs, works;
	struct job *job[GROUP_MAX];
	struct work work[GROUP_MAX];
} group;

struct split {
	int color, key;
};

struct place {
	int ranks, rank;
	ncclUniqueId id;
};

/* Rank 0 places all ranks, and has the roots of the new communicators. */
static int place_all(struct mesh *m, struct split mine, struct place *own)
{
	struct split *s = calloc((size_t)m->ranks, sizeof(*s));
	int ret = 0;

	s[0] = mine;
	for (int i = 1; i < m->ranks; i++)
		ret |= mesh_recv(m, 1, i, &s[i], sizeof(s[i]));
	for (int i = 0; !ret && i < m->ranks; i++) {
		ncclUniqueId id;
		bool first = true;

		for (int k = 0; k < i; k++)
			first &= s[k].color != s[i].color;
		if (!first)
			continue;
		if (s[i].color >= 0)
			mesh_root(&id);
		for (int k = i; k < m->ranks; k++) {
			struct place p = {.id = id};

			if (s[k].color != s[i].color)
				continue;
			for (int j = 0; j < m->ranks; j++) {
				p.ranks += s[j].color == s[k].color;
				p.rank += s[j].color == s[k].color &&
					  (s[j].key < s[k].key || (s[j].key == s[k].key && j < k));
			}
			if (k == 0)
				*own = p;
			else
				ret |= mesh_send(m, 1, k, &p, sizeof(p));
		}
	}
	free(s);
	return ret;
}

static int place_in_split(struct job *j)
{
	struct mesh *m = &j->parent->mesh;
	struct split mine = {j->color, j->key};
	struct place p = {0};
	int ret;

	if (m->rank == 0)
		ret = place_all(m, mine, &p);
	else
		ret = mesh_send(m, 1, 0, &mine, sizeof(mine)) | mesh_recv(m, 1, 0, &p, sizeof(p));
	j->id = p.id;
	j->ranks = p.ranks;
	j->rank = p.rank;
	return ret;
}

static void *do_job(void *arg)
{
	struct job *j = arg;
	int ret = 0;

	if (j->parent)
		ret = place_in_split(j);
	if (!ret && j->comm)
		ret = mesh_make(&j->comm->mesh, &j->id, j->ranks, j->rank, &j->comm->stop);
	j->result = ret ? fail(ncclRemoteError, "the ranks have not come together") : ncclSuccess;
	if (j->comm)
		atomic_store(&j->comm->state, j->result);
	return NULL;
}

static void *do_job_alone(void *arg)
{
	do_job(arg);
	free(arg);
	return NULL;
}

static ncclResult_t submit(struct job *j)
{
	ncclComm_t c = j->comm;
	ncclResult_t ret;

	if (group.depth > 0) {
		group.job[group.jobs++] = j;
		return ncclSuccess;
	}
	if (c && !c->blocking) {
		c->has_thread = true;
		pthread_create(&c->thread, NULL, do_job_alone, j);
		return ncclInProgress;
	}
	do_job(j);
	ret = j->result;
	if (ret && j->out)
		*j->out = NULL;
	free(j);
	return ret;
}

/* --- communicators */

static ncclComm_t new_comm(const ncclConfig_t *config, bool blocking)
{
	ncclComm_t c = calloc(1, sizeof(*c));

	c->blocking =
		config && config->blocking != NCCL_CONFIG_UNDEF_INT ? config->blocking : blocking;
	c->state = ncclInProgress;
	cuCtxGetCurrent(&c->context);
	cuCtxGetDevice(&c->device);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->idle, NULL);
	return c;
}

EXPORT ncclResult_t ncclGetVersion(int *version)
{
	*version = 22809;
	return ncclSuccess;
}

EXPORT const char *ncclGetErrorString(ncclResult_t result)
{
	return result ? "an error" : "no error";
}

EXPORT const char *ncclGetLastError(ncclComm_t comm)
{
	(void)comm;
	return last_error;
}

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	return mesh_root(id) < 0 ? ncclSystemError : ncclSuccess;
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
					   ncclConfig_t *config)
{
	struct job *j = calloc(1, sizeof(*j));

	if (config && (config->magic != NCCL_CONFIG_MAGIC ||
		       (config->commName && strcmp(config->commName, "double") != 0)))
		return fail(ncclInvalidArgument, "the configuration is not as it was sent");
	*comm = new_comm(config, true);
	*j = (struct job){.comm = *comm, .id = id, .ranks = ranks, .rank = rank, .out = comm};
	return submit(j);
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
	return ncclCommInitRankConfig(comm, ranks, id, rank, NULL);
}

EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int ranks, int rank, int count,
					     ncclUniqueId *ids, ncclConfig_t *config)
{
	return count < 1 ? ncclInvalidArgument
			 : ncclCommInitRankConfig(comm, ranks, ids[0], rank, config);
}

EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out,
				  ncclConfig_t *config)
{
	struct job *j = calloc(1, sizeof(*j));

	*out = color == NCCL_SPLIT_NOCOLOR ? NULL : new_comm(config, comm->blocking);
	*j = (struct job){.comm = *out, .parent = comm, .color = color, .key = key, .out = out};
	return submit(j);
}

EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int count, ncclComm_t *out,
				   ncclConfig_t *config, int flags)
{
	(void)flags;
	for (int i = 0; i < count; i++) {
		if (excluded[i] < 0 || excluded[i] >= comm->mesh.ranks)
			return fail(ncclInvalidArgument, "a rank that there is not");
	}
	return count >= comm->mesh.ranks ? ncclInvalidArgument
					 : ncclCommSplit(comm, 0, comm->mesh.rank, out, config);
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	*error = atomic_load(&comm->state);
	if (!*error)
		*error = atomic_load(&comm->error);
	return ncclSuccess;
}

EXPORT ncclResult_t ncclCommCount(ncclComm_t comm, int *count)
{
	*count = comm->mesh.ranks;
	return ncclSuccess;
}

EXPORT ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank)
{
	*rank = comm->mesh.rank;
	return ncclSuccess;
}

static void end(ncclComm_t comm)
{
	if (comm->has_thread)
		pthread_join(comm->thread, NULL);
	pthread_mutex_lock(&comm->lock);
	while (comm->plans > 0)
		pthread_cond_wait(&comm->idle, &comm->lock);
	pthread_mutex_unlock(&comm->lock);
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	end(comm);
	comm->has_thread = false;
	return ncclSuccess;
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	end(comm);
	mesh_free(&comm->mesh);
	free(comm);
	return ncclSuccess;
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	atomic_store(&comm->stop, true);
	mesh_stop(&comm->mesh);
	/* the thread may just be about to wait */
	while (comm->has_thread && pthread_tryjoin_np(comm->thread, NULL) != 0) {
		mesh_stop(&comm->mesh);
		usleep(1000);
	}
	comm->has_thread = false;
	return ncclCommDestroy(comm);
}

EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
	atomic_store(&comm->stop, true);
	mesh_stop(&comm->mesh);
	return flags ? ncclInvalidArgument : ncclSuccess;
}

EXPORT ncclResult_t ncclCommRegister(ncclComm_t comm, void *buffer, size_t size, void **handle)
{
	(void)comm, (void)buffer, (void)size;
	*handle = malloc(1);
	return ncclSuccess;
}

EXPORT ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle)
{
	(void)comm;
	free(handle);
	return ncclSuccess;
}

EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t size,
					   ncclWindow_t *window, int flags)
{
	(void)comm, (void)size, (void)flags;
	*window = buffer;
	return ncclSuccess;
}

EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
	(void)comm, (void)window;
	return ncclSuccess;
}

EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
					     int residence, ncclComm_t comm)
{
	int i = 0;
	float f;
	double d;

	while (i < OWN_OPS && comm->own[i])
		i++;
	if (i == OWN_OPS || (type != ncclFloat32 && type != ncclFloat64))
		return fail(ncclInvalidArgument, "no such operator");
	(void)residence; /* the GPU's memory is this process's */
	memcpy(&f, scalar, sizeof(f));
	if (type == ncclFloat64)
		memcpy(&d, scalar, sizeof(d));
	comm->own[i] = true;
	comm->scales[i] = type == ncclFloat64 ? d : f;
	*op = ncclNumOps + i;
	return ncclSuccess;
}

/* The scale stays for plans that have not run: numbers are not used again. */
EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
	return op >= ncclNumOps && op < ncclNumOps + OWN_OPS && comm->own[op - ncclNumOps]
		       ? ncclSuccess
		       : ncclInvalidArgument;
}

/* --- operations in streams */

static void *connect_one(void *arg)
{
	ncclComm_t comm = arg;

	if (mesh_barrier(&comm->mesh) != 0)
		atomic_store(&comm->error, ncclRemoteError);
	return NULL;
}

/* As NCCL connects the ranks when it first uses an algorithm: all communicators of a group at
 * once. */
static void connect_all(const struct work *works, int count)
{
	pthread_t threads[GROUP_MAX];
	ncclComm_t comms[GROUP_MAX];
	int n = 0;

	for (int i = 0; i < count; i++) {
		ncclComm_t c = works[i].comm;
		bool known = works[i].what == CK_NCCL_OP_SEND || works[i].what == CK_NCCL_OP_RECV ||
			     c->connected[works[i].what];

		c->connected[works[i].what] = true;
		for (int k = 0; k < n && !known; k++)
			known = comms[k] == c;
		if (!known)
			comms[n++] = c;
	}
	for (int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, connect_one, comms[i]);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static ncclResult_t launch_all(struct work *works, int count)
{
	ncclResult_t ret = ncclSuccess;

	connect_all(works, count);
	for (int i = 0; i < count && !ret; i++) {
		struct work *same;
		int n = 0;

		if (!works[i].comm)
			continue;
		same = calloc((size_t)count, sizeof(*same));
		for (int k = i; k < count; k++) {
			if (works[k].comm != works[i].comm || works[k].stream != works[i].stream)
				continue;
			same[n++] = works[k];
			if (k > i)
				works[k].comm = NULL;
		}
		cuCtxSetCurrent(works[i].comm->context);
		ret = plan_launch(same, n);
	}
	return ret;
}

static ncclResult_t submit_work(struct work w)
{
	const char *failing = getenv("NCCL_DOUBLE_FAIL");

	if (failing && (size_t)atol(failing) == w.count)
		return fail(ncclInternalError, "as many elements as NCCL_DOUBLE_FAIL says");
	if (group.depth == 0)
		return launch_all(&w, 1);
	group.work[group.works++] = w;
	return ncclSuccess;
}

EXPORT ncclResult_t ncclGroupStart(void)
{
	group.depth++;
	return ncclSuccess;
}

static ncclResult_t run_jobs(void)
{
	ncclResult_t ret = ncclSuccess;
	bool later = false;

	for (int i = 0; i < group.jobs; i++)
		later |= group.job[i]->comm && !group.job[i]->comm->blocking;
	for (int i = 0; i < group.jobs; i++) {
		struct job *j = group.job[i];

		if (later && j->comm)
			j->comm->has_thread = true;
		pthread_create(later && j->comm ? &j->comm->thread : &j->thread, NULL,
			       later ? do_job_alone : do_job, j);
	}
	for (int i = 0; !later && i < group.jobs; i++) {
		pthread_join(group.job[i]->thread, NULL);
		if (group.job[i]->result)
			ret = group.job[i]->result;
		free(group.job[i]);
	}
	return later ? ncclInProgress : ret;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
	ncclResult_t ret = ncclSuccess, launched;

	if (group.depth == 0)
		return ncclInvalidUsage;
	if (--group.depth > 0)
		return ncclSuccess;
	if (group.jobs > 0)
		ret = run_jobs();
	launched = group.works > 0 ? launch_all(group.work, group.works) : ncclSuccess;
	group.jobs = group.works = 0;
	return ret ? ret : launched;
}

EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
	info->estimatedTime = (float)group.works;
	group.depth = group.jobs = group.works = 0;
	return ncclSuccess;
}

#define WORK(number, ...)                                                                          \
	submit_work((struct work){.what = (number),                                                \
				  .comm = comm,                                                    \
				  .stream = stream,                                                \
				  .count = count,                                                  \
				  .type = type,                                                    \
				  __VA_ARGS__})

EXPORT ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
				  int op, ncclComm_t comm, CUstream stream)
{
	return WORK(CK_NCCL_OP_ALLREDUCE, .send = send, .recv = recv, .op = op);
}

EXPORT ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
			       int op, int root, ncclComm_t comm, CUstream stream)
{
	return WORK(CK_NCCL_OP_REDUCE, .send = send, .recv = recv, .op = op, .root = root);
}

EXPORT ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count,
				      ncclDataType_t type, int op, ncclComm_t comm, CUstream stream)
{
	return WORK(CK_NCCL_OP_REDUCESCATTER, .send = send, .recv = recv, .op = op);
}

EXPORT ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
				  int root, ncclComm_t comm, CUstream stream)
{
	return WORK(CK_NCCL_OP_BROADCAST, .send = send, .recv = recv, .root = root);
}

EXPORT ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root,
			      ncclComm_t comm, CUstream stream)
{
	return WORK(CK_NCCL_OP_BCAST, .send = buffer, .recv = buffer, .root = root);
}

EXPORT ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
				  ncclComm_t comm, CUstream stream)
{
	return WORK(CK_NCCL_OP_ALLGATHER, .send = send, .recv = recv);
}

EXPORT ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type,
				 ncclComm_t comm, CUstream stream)
{
	return WORK(CK_NCCL_OP_ALLTOALL, .send = send, .recv = recv);
}

EXPORT ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t type,
			       int root, ncclComm_t comm, CUstream stream)
{
	return WORK(CK_NCCL_OP_GATHER, .send = send, .recv = recv, .root = root);
}

EXPORT ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
				int root, ncclComm_t comm, CUstream stream)
{
	return WORK(CK_NCCL_OP_SCATTER, .send = send, .recv = recv, .root = root);
}

EXPORT ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
			     ncclComm_t comm, CUstream stream)
{
	return WORK(CK_NCCL_OP_SEND, .send = send, .root = peer);
}

EXPORT ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer,
			     ncclComm_t comm, CUstream stream)
{
	return WORK(CK_NCCL_OP_RECV, .recv = recv, .root = peer);
}
