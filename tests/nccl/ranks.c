/*
 * tests/nccl/ranks.c - a program with NCCL: one rank a process, on the first device.
 *
 *   ranks CASE RANK RANKS FILE      FILE is where rank 0 puts the unique id
 *
 * Prints "CASE: right" at its end.
 */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "tests/nccl/program.h"

#define COUNT 1000

CUdeviceptr floats(size_t count, float first, float step)
{
	float *host = malloc(count * sizeof(float));
	CUdeviceptr at;

	for (size_t i = 0; i < count; i++)
		host[i] = first + step * (float)i;
	cu(cuMemAlloc_v2(&at, count * sizeof(float)));
	cu(cuMemcpyHtoD_v2(at, host, count * sizeof(float)));
	free(host);
	return at;
}

void expect(CUdeviceptr at, size_t count, float first, float step)
{
	float *host = malloc(count * sizeof(float));

	cu(cuMemcpyDtoH_v2(host, at, count * sizeof(float)));
	for (size_t i = 0; i < count; i++) {
		if (host[i] != first + step * (float)i)
			die("element %zu is %g and not %g", i, (double)host[i],
			    (double)(first + step * (float)i));
	}
	free(host);
}

ncclUniqueId meet(const struct part *p, const char *suffix)
{
	char path[4096], tmp[4112];
	ncclUniqueId id;
	FILE *f;

	snprintf(path, sizeof(path), "%s%s", p->file, suffix);
	if (p->rank == 0) {
		nc(ncclGetUniqueId(&id));
		snprintf(tmp, sizeof(tmp), "%s.new", path);
		f = fopen(tmp, "w");
		want(f && fwrite(&id, sizeof(id), 1, f) == 1 && fclose(f) == 0 &&
		     rename(tmp, path) == 0);
		return id;
	}
	while (access(path, R_OK) != 0)
		usleep(1000);
	f = fopen(path, "r");
	want(f && fread(&id, sizeof(id), 1, f) == 1);
	fclose(f);
	return id;
}

ncclResult_t finished(ncclComm_t comm)
{
	ncclResult_t state;

	do {
		nc(ncclCommGetAsyncError(comm, &state));
		if (state == ncclInProgress)
			usleep(1000);
	} while (state == ncclInProgress);
	return state;
}

ncclConfig_t config_of(int blocking)
{
	ncclConfig_t c = {.size = sizeof(c),
			  .magic = NCCL_CONFIG_MAGIC,
			  .version = 22809,
			  .blocking = blocking};

	c.cgaClusterSize = c.minCTAs = c.maxCTAs = c.splitShare = c.trafficClass = c.collnetEnable =
		c.CTAPolicy = NCCL_CONFIG_UNDEF_INT;
	c.shrinkShare = c.nvlsCTAs = c.nChannelsPerNetPeer = c.nvlinkCentricSched =
		NCCL_CONFIG_UNDEF_INT;
	c.commName = "double";
	return c;
}

static void wait_stream(const struct part *p)
{
	cu(cuStreamSynchronize(p->stream));
}

/* --- the cases */

/* Training in parallel: the weights of rank 0, then steps with the gradients of all ranks. One
 * process computes the same. */
static void ddp(struct part *p)
{
	enum { WEIGHTS = 5000, STEPS = 50 };
	static float w[WEIGHTS], g[WEIGHTS], alone[WEIGHTS];
	CUdeviceptr dw = floats(WEIGHTS, p->rank == 0 ? 1.0f : -7.0f, 0.5f),
		    dg = floats(WEIGHTS, 0, 0);

	nc(ncclBroadcast(P(dw), P(dw), WEIGHTS, ncclFloat32, 0, p->comm, p->stream));
	wait_stream(p);
	cu(cuMemcpyDtoH_v2(w, dw, sizeof(w)));
	for (int i = 0; i < WEIGHTS; i++)
		alone[i] = 1.0f + 0.5f * (float)i;
	for (int step = 0; step < STEPS; step++) {
		for (int i = 0; i < WEIGHTS; i++)
			g[i] = (float)((i + step + p->rank) % 5 - 2) / 16;
		cu(cuMemcpyHtoDAsync_v2(dg, g, sizeof(g), p->stream));
		nc(ncclAllReduce(P(dg), P(dg), WEIGHTS, ncclFloat32, ncclSum, p->comm, p->stream));
		cu(cuMemcpyDtoHAsync_v2(g, dg, sizeof(g), p->stream));
		wait_stream(p);
		for (int i = 0; i < WEIGHTS; i++) {
			w[i] -= g[i];
			for (int r = 0; r < p->ranks; r++)
				alone[i] -= (float)((i + step + r) % 5 - 2) / 16;
		}
	}
	want(memcmp(w, alone, sizeof(w)) == 0);
}

static void reductions(struct part *p)
{
	float n = (float)p->ranks, sum = n * (n - 1) / 2;
	CUdeviceptr in = floats(COUNT, (float)p->rank, 1), out = floats(COUNT, -1, 0);

	nc(ncclAllReduce(P(in), P(out), COUNT, ncclFloat32, ncclSum, p->comm, p->stream));
	wait_stream(p);
	expect(out, COUNT, sum, n);
	nc(ncclAllReduce(P(in), P(out), COUNT, ncclFloat32, ncclMax, p->comm, p->stream));
	wait_stream(p);
	expect(out, COUNT, n - 1, 1);
	nc(ncclAllReduce(P(in), P(out), COUNT, ncclFloat32, ncclMin, p->comm, p->stream));
	wait_stream(p);
	expect(out, COUNT, 0, 1);
	nc(ncclReduce(P(in), P(out), COUNT, ncclFloat32, ncclSum, p->ranks - 1, p->comm,
		      p->stream));
	wait_stream(p);
	expect(out, COUNT, p->rank == p->ranks - 1 ? sum : 0, p->rank == p->ranks - 1 ? n : 1);
}

static void spreading(struct part *p)
{
	size_t part = COUNT / (size_t)p->ranks;
	float first = (float)(part * (size_t)p->rank);
	CUdeviceptr in = floats(part, first, 1), all = floats(part * (size_t)p->ranks, -1, 0),
		    out = floats(part, -1, 0);

	nc(ncclAllGather(P(in), P(all), part, ncclFloat32, p->comm, p->stream));
	wait_stream(p);
	expect(all, part * (size_t)p->ranks, 0, 1);
	nc(ncclReduceScatter(P(all), P(out), part, ncclFloat32, ncclSum, p->comm, p->stream));
	wait_stream(p);
	expect(out, part, first * (float)p->ranks, (float)p->ranks);
	nc(ncclScatter(P(all), P(out), part, ncclFloat32, 0, p->comm, p->stream));
	wait_stream(p);
	expect(out, part, first, 1);
	nc(ncclGather(P(out), P(all), part, ncclFloat32, 0, p->comm, p->stream));
	nc(ncclBcast(P(all), part * (size_t)p->ranks, ncclFloat32, 0, p->comm, p->stream));
	wait_stream(p);
	expect(all, part * (size_t)p->ranks, 0, 1);
}

static void collectives(struct part *p)
{
	reductions(p);
	spreading(p);
}

/* Around the ring, and everybody to everybody. */
static void pairs(struct part *p)
{
	int next = (p->rank + 1) % p->ranks, before = (p->rank + p->ranks - 1) % p->ranks;
	CUdeviceptr in = floats(COUNT, (float)p->rank * 1000, 1), out = floats(COUNT, -1, 0);
	CUdeviceptr all = floats((size_t)p->ranks, (float)p->rank * 100, 1),
		    got = floats((size_t)p->ranks, -1, 0);

	for (int i = 0; i < 3; i++) {
		nc(ncclGroupStart());
		nc(ncclSend(P(in), COUNT, ncclFloat32, next, p->comm, p->stream));
		nc(ncclRecv(P(out), COUNT, ncclFloat32, before, p->comm, p->stream));
		nc(ncclGroupEnd());
	}
	nc(ncclAlltoAll(P(all), P(got), 1, ncclFloat32, p->comm, p->stream));
	wait_stream(p);
	expect(out, COUNT, (float)before * 1000, 1);
	expect(got, (size_t)p->ranks, (float)p->rank, 100);
	if (p->rank == 0)
		nc(ncclSend(P(in), 1, ncclFloat32, p->ranks - 1, p->comm, p->stream));
	if (p->rank == p->ranks - 1)
		nc(ncclRecv(P(out), 1, ncclFloat32, 0, p->comm, p->stream));
	wait_stream(p);
	expect(out, 1, p->rank == p->ranks - 1 ? 0 : (float)before * 1000, 0);
}

/* Even and odd ranks, in the opposite order; then all but the first. */
static void split(struct part *p)
{
	CUdeviceptr in = floats(COUNT, (float)p->rank, 0), out = floats(COUNT, -1, 0);
	ncclComm_t half, rest;
	int count, rank, device, sum = 0;

	nc(ncclCommSplit(p->comm, p->rank % 2, -p->rank, &half, NULL));
	nc(ncclCommCount(half, &count));
	nc(ncclCommUserRank(half, &rank));
	nc(ncclCommCuDevice(half, &device));
	for (int r = p->rank % 2; r < p->ranks; r += 2)
		sum += r;
	want(count == (p->ranks + 1 - p->rank % 2) / 2 && device == 0);
	want(rank == count - 1 - p->rank / 2);
	nc(ncclAllReduce(P(in), P(out), COUNT, ncclFloat32, ncclSum, half, p->stream));
	wait_stream(p);
	expect(out, COUNT, (float)sum, 0);
	nc(ncclCommSplit(p->comm, p->rank == 0 ? NCCL_SPLIT_NOCOLOR : 7, 0, &rest, NULL));
	want((rest == NULL) == (p->rank == 0));
	if (rest) {
		nc(ncclAllReduce(P(in), P(out), COUNT, ncclFloat32, ncclSum, rest, p->stream));
		wait_stream(p);
		expect(out, COUNT, (float)(p->ranks * (p->ranks - 1) / 2), 0);
		nc(ncclCommFinalize(rest));
		nc(ncclCommDestroy(rest));
	}
	nc(ncclCommDestroy(half));
	/* the double's meeting points are in the process of rank 0 */
	nc(ncclAllReduce(P(in), P(out), COUNT, ncclFloat32, ncclSum, p->comm, p->stream));
	wait_stream(p);
}

static void operators(struct part *p)
{
	float scale = (float)(p->rank + 1);
	CUdeviceptr in = floats(COUNT, 1, 1), out = floats(COUNT, -1, 0);
	int total = p->ranks * (p->ranks + 1) / 2;

	for (int i = 0; i < 10; i++) {
		ncclRedOp_t op;

		nc(ncclRedOpCreatePreMulSum(&op, &scale, ncclFloat32, ncclScalarHostImmediate,
					    p->comm));
		want(op >= ncclNumOps);
		nc(ncclAllReduce(P(in), P(out), COUNT, ncclFloat32, op, p->comm, p->stream));
		nc(ncclRedOpDestroy(op, p->comm));
		want(ncclRedOpDestroy(op, p->comm) == ncclInvalidArgument);
	}
	wait_stream(p);
	expect(out, COUNT, (float)total, (float)total);
}

static void memory(struct part *p)
{
	void *buffer, *handle;
	ncclWindow_t window;

	nc(ncclMemAlloc(&buffer, COUNT * sizeof(float)));
	cu(cuMemsetD32Async((uintptr_t)buffer, 0x3f800000, COUNT, p->stream));
	nc(ncclCommRegister(p->comm, buffer, COUNT * sizeof(float), &handle));
	want(handle != NULL);
	nc(ncclAllReduce(buffer, buffer, COUNT, ncclFloat32, ncclSum, p->comm, p->stream));
	wait_stream(p);
	expect((uintptr_t)buffer, COUNT, (float)p->ranks, 0);
	nc(ncclCommDeregister(p->comm, handle));
	want(ncclCommDeregister(p->comm, handle) == ncclInvalidArgument);
	nc(ncclCommWindowRegister(p->comm, buffer, COUNT * sizeof(float), &window, 0));
	nc(ncclCommWindowDeregister(p->comm, window));
	nc(ncclMemFree(buffer));
	want(ncclMemFree((void *)0x1000) == ncclInvalidArgument);
}

/* In a graph, which runs three times. */
static void capture(struct part *p)
{
	CUdeviceptr sum = floats(COUNT, 1, 0);
	CUgraphExec exec;
	CUgraph graph;

	cu(cuStreamBeginCapture_v2(p->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	nc(ncclAllReduce(P(sum), P(sum), COUNT, ncclFloat32, ncclSum, p->comm, p->stream));
	cu(cuStreamEndCapture(p->stream, &graph));
	cu(cuGraphInstantiateWithFlags(&exec, graph, 0));
	cu(cuGraphLaunch(exec, p->stream));
	wait_stream(p);
	expect(sum, COUNT, (float)p->ranks, 0);
}

static void nonblocking(struct part *p)
{
	ncclConfig_t config = config_of(0);
	CUdeviceptr sum = floats(COUNT, 1, 0);
	ncclComm_t comm, half;
	ncclResult_t ret =
		ncclCommInitRankConfig(&comm, p->ranks, meet(p, ".later"), p->rank, &config);
	int count;

	want(ret == ncclInProgress && comm && finished(comm) == ncclSuccess);
	for (int i = 0; i < 5; i++) {
		ret = ncclAllReduce(P(sum), P(sum), COUNT, ncclFloat32, ncclMax, comm, p->stream);
		want(ret == ncclSuccess || ret == ncclInProgress);
		want(finished(comm) == ncclSuccess);
	}
	wait_stream(p);
	expect(sum, COUNT, 1, 0);
	ret = ncclCommSplit(comm, 0, p->rank, &half, NULL);
	want(ret == ncclInProgress && finished(comm) == ncclSuccess &&
	     finished(half) == ncclSuccess);
	nc(ncclCommCount(half, &count));
	want(count == p->ranks);
	nc(ncclCommAbort(half));
	ret = ncclCommFinalize(comm);
	want(ret == ncclSuccess || ret == ncclInProgress);
	want(finished(comm) == ncclSuccess);
	nc(ncclCommDestroy(comm));
}

/* What NCCL refuses at once. */
static void errors(struct part *p)
{
	CUdeviceptr at = floats(COUNT, 1, 0);
	ncclComm_t comm = p->comm, other = (ncclComm_t)(void *)p;
	ncclUniqueId id = {{0}};
	ncclSimInfo_t info = {.size = sizeof(info), .magic = NCCL_SIM_INFO_MAGIC};
	int version;

	nc(ncclGetVersion(&version));
	want(version >= 21400);
	want(ncclAllReduce(P(at), P(at), COUNT, 99, ncclSum, comm, p->stream) ==
	     ncclInvalidArgument);
	want(ncclAllReduce(P(at), P(at), COUNT, ncclFloat32, 77, comm, p->stream) ==
	     ncclInvalidArgument);
	want(ncclBroadcast(P(at), P(at), COUNT, ncclFloat32, p->ranks, comm, p->stream) ==
	     ncclInvalidArgument);
	want(ncclSend(P(at), COUNT, ncclFloat32, -1, comm, p->stream) == ncclInvalidArgument);
	want(ncclAllReduce(P(at), P(at), COUNT, ncclFloat32, ncclSum, other, p->stream) ==
	     ncclInvalidArgument);
	want(ncclAllReduce(P(at), P(at), COUNT, ncclFloat32, ncclSum, NULL, p->stream) ==
	     ncclInvalidArgument);
	want(strstr(ncclGetLastError(NULL), "not a communicator"));
	want(ncclCommInitRank(&other, 2, id, 2) == ncclInvalidArgument);
	want(ncclGroupEnd() == ncclInvalidUsage);
	nc(ncclGroupStart());
	want(ncclSend(P(at), COUNT, ncclFloat32, -1, comm, p->stream) == ncclInvalidArgument);
	want(ncclGroupEnd() == ncclInvalidArgument);
	nc(ncclGroupStart());
	nc(ncclAllReduce(P(at), P(at), COUNT, ncclFloat32, ncclSum, comm, p->stream));
	nc(ncclGroupSimulateEnd(&info));
	want(info.estimatedTime == 1);
	nc(ncclAllReduce(P(at), P(at), COUNT, ncclFloat32, ncclSum, comm, p->stream));
	wait_stream(p);
	expect(at, COUNT, (float)p->ranks, 0);
	want(strcmp(ncclGetErrorString(ncclSuccess), "no error") == 0);
}

/* NCCL_DOUBLE_FAIL=77: an operation without a reply that fails. */
static void failing(struct part *p)
{
	CUdeviceptr at = floats(COUNT, 1, 0);
	ncclResult_t state;

	nc(ncclAllReduce(P(at), P(at), 64, ncclFloat32, ncclSum, p->comm,
			 p->stream)); /* of that size class */
	nc(ncclAllReduce(P(at), P(at), 77, ncclFloat32, ncclSum, p->comm, p->stream));
	want(cuStreamSynchronize(p->stream) == CUDA_ERROR_UNKNOWN);
	nc(ncclCommGetAsyncError(p->comm, &state));
	want(state == ncclInternalError && strstr(ncclGetLastError(p->comm), "NCCL_DOUBLE_FAIL"));
	nc(ncclCommAbort(p->comm));
	want(ncclAllReduce(P(at), P(at), 1, ncclFloat32, ncclSum, p->comm, p->stream) ==
	     ncclInvalidArgument);
	p->comm = NULL;
}

const struct test_case single_cases[] = {
	{"ddp", ddp, false},
	{"collectives", collectives, false},
	{"pairs", pairs, false},
	{"split", split, false},
	{"operators", operators, false},
	{"memory", memory, false},
	{"capture", capture, false},
	{"nonblocking", nonblocking, false},
	{"errors", errors, false},
	{"failing", failing, false},
	{NULL, NULL, false},
};

static const struct test_case *find(const char *name)
{
	const struct test_case *c = single_cases;

	while (c->name && strcmp(c->name, name) != 0)
		c++;
	if (c->name)
		return c;
	for (c = process_cases; c->name; c++) {
		if (strcmp(c->name, name) == 0)
			return c;
	}
	die("no case %s", name);
}

int main(int argc, char **argv)
{
	const struct test_case *c = argc == 5 ? find(argv[1]) : NULL;
	struct part p = {.rank = c ? atoi(argv[2]) : 0,
			 .ranks = c ? atoi(argv[3]) : 0,
			 .file = c ? argv[4] : NULL};

	if (!c)
		die("usage: ranks CASE RANK RANKS FILE");
	cu(cuInit(0));
	cu(cuDevicePrimaryCtxRetain(&p.context, 0));
	cu(cuCtxSetCurrent(p.context));
	cu(cuStreamCreate(&p.stream, CU_STREAM_NON_BLOCKING));
	if (!c->alone)
		nc(ncclCommInitRank(&p.comm, p.ranks, meet(&p, ""), p.rank));
	c->run(&p);
	if (p.comm)
		nc(ncclCommDestroy(p.comm));
	printf("%s: right\n", c->name);
	return 0;
}
