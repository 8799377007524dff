/*
 * gather_bench [OPTION]... - how fast all ranks at once read, write or add to segments at random
 * places of one memory. Prints a line a segment size: GB/s a rank, least, mean and most over the
 * ranks.
 *
 *   --ranks N  --threads     ranks that it starts itself; else mpirun's, or one
 *   --backing ipc|vmm|auto of the memory; with --threads and with one rank: whether it could be
 *   exported --table BYTES of the memory, all chunks together (64M; K, M, G) --gather BYTES that a
 *   rank moves in a pass (16M) --segments A,B,... bytes (64,128,256,1024,4096,16384) --op
 *   read|write|add add: atomicAdd of floats, 4 bytes wide --width 4|8|16 bytes of a load (16) --at
 *   row|element where At() is called: once a segment, or at each load --passes N timed ones (5);
 *   the best counts --json a line a size as JSON too
 *
 * The memory holds a pattern, and the rows of the first pass are compared with it: `wrong` must be
 * 0.
 */
#include <cuda_runtime.h>
#include <getopt.h>

#include "ranks.h"
#include "wcm/whole_chunked_memory.cuh"

typedef const WholeChunkedMemoryHandle Handle;
typedef unsigned long long u64;

#define THREADS 256
#define SEGMENTS_MAX 16

static struct {
	int ranks, threads, backing, width, element, passes, json;
	char op;
	size_t table, gather, segments[SEGMENTS_MAX];
	int segment_count;
} want = {0, 0, WCM_AUTO, 16, 0, 5, 0, 'r', 64ul << 20, 16ul << 20,
	  {64, 128, 256, 1024, 4096, 16384}, 6};

#define CUDA(call)                                                                                 \
	do {                                                                                       \
		cudaError_t err_ = (call);                                                         \
		if (err_ != cudaSuccess) {                                                         \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(err_));              \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

/* --- kernels */

/* The word of 4 bytes at word number @i of the memory. */
static __device__ unsigned int word_at(u64 i)
{
	return (unsigned int)(i * 2654435761ull ^ i >> 15);
}

/* A random number below @below, of 32 bits. */
static __device__ u64 pick(u64 i, unsigned int seed, u64 below)
{
	u64 x = (i + 1) * 0x9e3779b97f4a7c15ull + seed * 0xd1342543de82ef95ull;

	x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ull;
	x ^= x >> 29;
	return (x >> 32) * below >> 32;
}

__global__ void fill(Handle *h, u64 first, u64 words)
{
	for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < words;
	     i += (u64)gridDim.x * blockDim.x)
		*PtrGen<Handle, unsigned int>(h).At(first + i) = word_at(first + i);
}

static __device__ void add(unsigned int *to, unsigned int)
{
	atomicAdd((float *)to, 1.0f);
}
template <typename V> static __device__ void add(V *to, V value)
{
	*to = value; /* only 4 bytes wide are asked for */
}

/* Segment number i of this rank's: at a random place of the memory, and at place i of @local. */
template <typename V, char OP, bool ELEMENT>
__global__ void move(Handle *h, V *local, u64 count, u64 places, int units, int lanes, unsigned int seed)
{
	u64 thread = blockIdx.x * (u64)blockDim.x + threadIdx.x;
	u64 step = (u64)gridDim.x * blockDim.x / lanes;
	int lane = (int)(thread % lanes);
	PtrGen<Handle, V> memory(h);

	for (u64 s = thread / lanes; s < count; s += step) {
		u64 first = pick(s, seed, places) * units;
		V *there = memory.At(first), *here = local + s * units;

		for (int i = lane; i < units; i += lanes) {
			V *p = ELEMENT ? memory.At(first + i) : there + i;

			if (OP == 'r')
				here[i] = *p;
			else if (OP == 'w')
				*p = here[i];
			else
				add(p, here[i]);
		}
	}
}

__global__ void compare(const unsigned int *local, u64 count, u64 places, int words, unsigned int seed,
			u64 *wrong)
{
	u64 bad = 0;

	for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count * words;
	     i += (u64)gridDim.x * blockDim.x)
		bad += local[i] != word_at(pick(i / words, seed, places) * words + i % words);
	if (bad)
		atomicAdd(wrong, bad);
}

/* --- a rank */

struct bench {
	wcm_group *g;
	wcm_t memory;
	Handle *handle;
	void *local;
	u64 *wrong; /* of the device */
	int blocks;
	cudaEvent_t begin, end;
};

template <typename V, char OP>
static void launch(struct bench *b, u64 count, u64 places, size_t segment, unsigned int seed)
{
	int units = (int)(segment / sizeof(V)), lanes = 1;

	while (lanes < THREADS && lanes < units)
		lanes *= 2;
	if (want.element)
		move<V, OP, true><<<b->blocks, THREADS>>>(b->handle, (V *)b->local, count, places, units,
							  lanes, seed);
	else
		move<V, OP, false><<<b->blocks, THREADS>>>(b->handle, (V *)b->local, count, places,
							   units, lanes, seed);
}

template <typename V>
static void launch_op(struct bench *b, u64 count, u64 places, size_t segment, unsigned int seed)
{
	if (want.op == 'r')
		launch<V, 'r'>(b, count, places, segment, seed);
	else if (want.op == 'w')
		launch<V, 'w'>(b, count, places, segment, seed);
	else
		launch<V, 'a'>(b, count, places, segment, seed);
}

/* One pass; its GB/s into @rate. */
static int pass(struct bench *b, size_t segment, unsigned int seed, double *rate)
{
	u64 count = want.gather / segment, places = want.table / segment;
	float ms = 0;

	if (report_status(wcm_barrier(b->g), "wcm_barrier"))
		return 1;
	CUDA(cudaEventRecord(b->begin));
	if (want.width == 16)
		launch_op<uint4>(b, count, places, segment, seed);
	else if (want.width == 8)
		launch_op<u64>(b, count, places, segment, seed);
	else
		launch_op<unsigned int>(b, count, places, segment, seed);
	CUDA(cudaGetLastError());
	CUDA(cudaEventRecord(b->end));
	CUDA(cudaEventSynchronize(b->end));
	CUDA(cudaEventElapsedTime(&ms, b->begin, b->end));
	*rate = ms > 0 ? (double)(count * segment) / ms / 1e6 : 0;
	return 0;
}

/* The first pass warms up, and its result is compared. */
static int measure(struct bench *b, size_t segment, double *best, u64 *wrong)
{
	unsigned int seed = (unsigned int)wcm_rank(b->g) * 1000 + 1;
	u64 count = want.gather / segment;
	double rate;

	*best = 0;
	*wrong = 0;
	if (pass(b, segment, seed, &rate))
		return 1;
	if (want.op == 'r') {
		CUDA(cudaMemset(b->wrong, 0, sizeof(*wrong)));
		compare<<<b->blocks, THREADS>>>((const unsigned int *)b->local, count,
						want.table / segment, (int)(segment / 4), seed, b->wrong);
		CUDA(cudaMemcpy(wrong, b->wrong, sizeof(*wrong), cudaMemcpyDeviceToHost));
	}
	for (int i = 0; i < want.passes; i++) {
		if (pass(b, segment, seed + (unsigned int)i + 1, &rate))
			return 1;
		*best = rate > *best ? rate : *best;
	}
	return 0;
}

static int report(struct bench *b, size_t segment, double best, u64 wrong)
{
	int size = wcm_size(b->g);
	double all[WCM_RANKS_MAX], least, most, sum = 0;
	uint64_t bad = 0;

	if (report_status(wcm_all_gather(b->g, &best, sizeof(best), all), "wcm_all_gather") ||
	    report_status(wcm_aggregate(b->g, wrong, &bad, NULL), "wcm_aggregate"))
		return 1;
	least = most = all[0];
	for (int i = 0; i < size; i++) {
		least = all[i] < least ? all[i] : least;
		most = all[i] > most ? all[i] : most;
		sum += all[i];
	}
	if (wcm_rank(b->g) == 0) {
		printf("%7zu bytes: %9.3f %9.3f %9.3f GB/s a rank (least, mean, most), %llu wrong\n",
		       segment, least, sum / size, most, (unsigned long long)bad);
		if (want.json)
			printf("{\"segment\": %zu, \"least\": %.4f, \"mean\": %.4f, \"most\": %.4f, "
			       "\"wrong\": %llu}\n",
			       segment, least, sum / size, most, (unsigned long long)bad);
		fflush(stdout);
	}
	return bad != 0;
}

/* Memory, its handle, and the pattern: each rank fills its own chunk. */
static int set_up(struct bench *b)
{
	WholeChunkedMemoryHandle *handle;
	int device = wcm_device(b->g), processors;
	wcm_info info;

	/* a power of two that no segment lies across, so that At() need not divide */
	if (report_status(wcm_malloc(b->g, want.table, 16384, NULL, 0, &b->memory), "wcm_malloc") ||
	    report_status(wcm_device_handle(b->memory, device, &handle), "wcm_device_handle") ||
	    report_status(wcm_stat(b->memory, &info), "wcm_stat"))
		return 1;
	b->handle = handle;
	CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
	b->blocks = processors * 8;
	if (want.gather < (size_t)b->blocks * THREADS * 16)
		b->blocks = 1 + (int)(want.gather / (THREADS * 16));
	CUDA(cudaMalloc(&b->local, want.gather));
	CUDA(cudaMemset(b->local, 0, want.gather));
	CUDA(cudaMalloc((void **)&b->wrong, sizeof(*b->wrong)));
	CUDA(cudaEventCreate(&b->begin));
	CUDA(cudaEventCreate(&b->end));
	fill<<<b->blocks, THREADS>>>(b->handle, info.chunk * (info.chunk_size / 4), info.chunk_size / 4);
	CUDA(cudaDeviceSynchronize());
	return report_status(wcm_barrier(b->g), "wcm_barrier");
}

static int run(struct rank *r)
{
	struct bench b;
	int status, devices;
	double best;
	u64 wrong;

	memset(&b, 0, sizeof(b));
	CUDA(cudaGetDeviceCount(&devices));
	if (join_group(r, want.backing, WCM_ANY_DEVICE, &b.g))
		return 1;
	CUDA(cudaSetDevice(wcm_device(b.g)));
	status = set_up(&b);
	if (!status && wcm_rank(b.g) == 0)
		printf("%d ranks%s on %d devices, %s, table %zu MiB, %s, %d bytes wide\n", wcm_size(b.g),
		       want.threads ? " (threads)" : "", devices,
		       wcm_backing_of(b.g) == WCM_IPC ? "ipc" : "vmm", want.table >> 20,
		       want.op == 'r' ? "read" : want.op == 'w' ? "write" : "add", want.width);
	for (int i = 0; i < want.segment_count && !status; i++) {
		status = measure(&b, want.segments[i], &best, &wrong) ||
			 report(&b, want.segments[i], best, wrong);
	}
	cudaFree(b.local);
	cudaFree(b.wrong);
	return report_status(wcm_finalize(b.g), "wcm_finalize") || status;
}

/* --- options */

static size_t bytes_of(const char *text)
{
	char *end;
	double number = strtod(text, &end);
	int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;

	return number > 0 ? (size_t)(number * (double)(1ul << shift)) : 0;
}

static int take_segments(char *list)
{
	want.segment_count = 0;
	for (char *one = strtok(list, ","); one; one = strtok(NULL, ",")) {
		if (want.segment_count == SEGMENTS_MAX)
			return -1;
		want.segments[want.segment_count++] = bytes_of(one);
	}
	return 0;
}

/* The rows that can be measured: whole segments of whole loads that no chunk's end divides. */
static int is_sensible(void)
{
	for (int i = 0; i < want.segment_count; i++) {
		size_t s = want.segments[i];

		if (s == 0 || s % (size_t)want.width || 16384 % s || s > want.gather || s > want.table)
			return 0;
	}
	return want.segment_count > 0 && want.backing >= 0 && want.passes > 0 &&
	       (want.width == 4 || want.width == 8 || want.width == 16) &&
	       (want.op != 'a' || want.width == 4) && strchr("rwa", want.op);
}

static int take_option(int c, char *argument)
{
	switch (c) {
	case 'r':
		want.ranks = count_of(argument);
		return 0;
	case 'T':
		want.threads = 1;
		return 0;
	case 'b':
		want.backing = backing_of(argument);
		return 0;
	case 't':
		want.table = bytes_of(argument);
		return 0;
	case 'g':
		want.gather = bytes_of(argument);
		return 0;
	case 's':
		return take_segments(argument);
	case 'o':
		want.op = argument[0];
		return 0;
	case 'w':
		want.width = count_of(argument);
		return 0;
	case 'a':
		want.element = strcmp(argument, "element") == 0;
		return 0;
	case 'p':
		want.passes = count_of(argument);
		return 0;
	case 'j':
		want.json = 1;
		return 0;
	default:
		return -1;
	}
}

static int help(void)
{
	puts("Usage: gather_bench [OPTION]...\n"
	     "Measure how fast all ranks at once reach segments at random places of one memory.\n\n"
	     "  --ranks N  --threads     ranks that it starts itself; else mpirun's, or one\n"
	     "  --backing ipc|vmm|auto   of the memory (auto)\n"
	     "  --table BYTES            of the memory, all chunks together (64M; K, M, G)\n"
	     "  --gather BYTES           that a rank moves in a pass (16M)\n"
	     "  --segments A,B,...       bytes (64,128,256,1024,4096,16384)\n"
	     "  --op read|write|add      add: atomicAdd of floats, 4 bytes wide (read)\n"
	     "  --width 4|8|16           bytes of a load (16)\n"
	     "  --at row|element         where At() is called: once a segment, or at each load (row)\n"
	     "  --passes N               timed ones; the best counts (5)\n"
	     "  --json                   a line a size as JSON too\n"
	     "  --help");
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"ranks", required_argument, NULL, 'r'},   {"threads", no_argument, NULL, 'T'},
		{"backing", required_argument, NULL, 'b'}, {"table", required_argument, NULL, 't'},
		{"gather", required_argument, NULL, 'g'},  {"segments", required_argument, NULL, 's'},
		{"op", required_argument, NULL, 'o'},	   {"width", required_argument, NULL, 'w'},
		{"at", required_argument, NULL, 'a'},	   {"passes", required_argument, NULL, 'p'},
		{"json", no_argument, NULL, 'j'},	   {"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'h')
			return help();
		if (take_option(c, optarg))
			return 2;
	}
	if (optind < argc || !is_sensible()) {
		fprintf(stderr, "gather_bench: these options make no sense: see --help\n");
		return 2;
	}
	return run_ranks(want.ranks, want.threads, run);
}
