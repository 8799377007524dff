/*
 * tests/test_apps/profile.cu - what a profiler sees of a program, through CUPTI's activity
 * interface: each piece of work once, tied to its call, within the time of the program, and inside
 * of the ids that were pushed.
 *
 * The argument is the library's name. Prints the records in a form that does not depend on times.
 */
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <set>
#include <string>
#include <vector>
#include "check.h"
#include "../../cuda/cupti.h"

#define LAUNCHES 5
#define SIZE (1 << 20)
#define PUSHED 4711

static void *library;
static int waiting; /* buffers that the library has and fills */
static std::vector<std::vector<uint8_t>> buffers;

template <typename F> static F find(const char *name)
{
	F f = (F)dlsym(library, name);

	if (!f) {
		printf("no %s\n", name);
		exit(1);
	}
	return f;
}
#define CALL(name, type, ...) find<int (*) type>(#name)(__VA_ARGS__)
#define CUPTI(name, type, ...)                                                                     \
	do {                                                                                       \
		int ret = CALL(name, type, __VA_ARGS__);                                           \
		if (ret) {                                                                         \
			printf("%s: %d\n", #name, ret);                                            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static void on_request(uint8_t **buffer, size_t *size, size_t *records)
{
	*size = 4096; /* so small that there are several */
	*buffer = (uint8_t *)aligned_alloc(8, *size);
	*records = 0;
	waiting++;
}

static void on_complete(void *, uint32_t, uint8_t *buffer, size_t, size_t valid)
{
	buffers.emplace_back(buffer, buffer + valid);
	free(buffer);
	waiting--;
}

__global__ void scale(float *x, float by)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	x[i] *= by;
}

static uint64_t now()
{
	uint64_t t;

	CUPTI(cuptiGetTimestamp, (uint64_t *), &t);
	return t;
}

static void work()
{
	std::vector<float> host(SIZE / sizeof(float), 1.0f);
	float *x;

	CHECK(cudaMalloc(&x, SIZE));
	CHECK(cudaMemset(x, 0, SIZE));
	CHECK(cudaMemcpy(x, host.data(), SIZE, cudaMemcpyHostToDevice));
	for (int i = 0; i < LAUNCHES; i++)
		scale<<<SIZE / sizeof(float) / 256, 256>>>(x, 2.0f);
	CUPTI(cuptiActivityPushExternalCorrelationId, (uint32_t, uint64_t), 1, PUSHED);
	scale<<<SIZE / sizeof(float) / 128, 128>>>(x, 2.0f);
	CUPTI(cuptiActivityPopExternalCorrelationId, (uint32_t, uint64_t *), 1, nullptr);
	CHECK(cudaMemcpy(host.data(), x, SIZE, cudaMemcpyDeviceToHost));
	CHECK(cudaFree(x));
	printf("result %g\n", host[7]);
}

struct seen {
	int kernels = 0, copies = 0, fills = 0, untied = 0, misplaced = 0, early = 0, inside = 0;
	uint64_t bytes = 0;
	std::map<uint32_t, uint64_t> calls; /* number to start */
	std::set<uint32_t> pushed;
	std::set<std::string> names;
	std::map<uint32_t, int> kinds;
	std::string launcher; /* name of the call that launched */
	std::map<uint32_t, std::string> callers;
};

/* All kinds of work have times and a number. */
static void look(seen *s, uint64_t start, uint64_t end, uint32_t number, uint64_t from, uint64_t to)
{
	s->untied += s->calls.count(number) == 0;
	s->misplaced += !(from <= start && start <= end && end <= to);
	s->early += s->calls.count(number) && start < s->calls[number];
}

static const char *name_of(uint32_t kind, uint32_t call)
{
	const char *name;

	CUPTI(cuptiGetCallbackName, (uint32_t, uint32_t, const char **),
	      kind == CUPTI_ACTIVITY_KIND_DRIVER ? 1 : 2, call, &name);
	return name;
}

static void read(seen *s, const union ck_cupti_record *r, uint64_t from, uint64_t to)
{
	switch (r->kind) {
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		s->kernels++;
		s->names.insert(r->kernel.name);
		s->launcher = s->callers[r->kernel.correlation];
		s->inside += s->pushed.count(r->kernel.correlation) > 0;
		look(s, r->kernel.start, r->kernel.end, r->kernel.correlation, from, to);
		break;
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		s->copies++;
		s->bytes += r->copy.bytes;
		look(s, r->copy.start, r->copy.end, r->copy.correlation, from, to);
		break;
	case CUPTI_ACTIVITY_KIND_MEMSET:
		s->fills++;
		look(s, r->fill.start, r->fill.end, r->fill.correlation, from, to);
		break;
	case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
		if (r->external.external == PUSHED)
			s->pushed.insert(r->external.correlation);
		break;
	default:
		s->kinds[r->kind]++;
		s->calls[r->api.correlation] = r->api.start;
		s->callers[r->api.correlation] = name_of(r->api.kind, r->api.call);
	}
}

static seen read_all(uint64_t from, uint64_t to)
{
	auto next = find<int (*)(uint8_t *, size_t, void **)>("cuptiActivityGetNextRecord");
	seen s;

	for (auto &buffer : buffers)
		for (void *r = nullptr; next(buffer.data(), buffer.size(), &r) == 0;)
			read(&s, (const union ck_cupti_record *)r, from, to);
	buffers.clear();
	return s;
}

int main(int argc, char **argv)
{
	static const uint32_t kinds[] = {1, 2, 10, 4, 5, 39};
	bool early = argc > 2 && strcmp(argv[2], "early") == 0;
	uint64_t from;
	size_t dropped;
	seen s;

	library = dlopen(argc > 1 ? argv[1] : "libcupti.so.13", RTLD_NOW);
	if (!library) {
		printf("%s\n", dlerror());
		return 1;
	}
	if (!early)
		CHECK(cudaFree(nullptr)); /* the session begins before the profile */
	CUPTI(cuptiActivityRegisterCallbacks, (ck_cupti_request_fn, ck_cupti_complete_fn), on_request,
	      on_complete);
	for (uint32_t kind : kinds)
		CUPTI(cuptiActivityEnable, (uint32_t), kind);
	from = now();
	work();
	CHECK(cudaDeviceSynchronize());
	/* Kineto flushes only if a buffer has been asked for */
	printf("buffers in use %d\n", waiting);
	CUPTI(cuptiActivityFlushAll, (uint32_t), 1);
	s = read_all(from, now());
	CUPTI(cuptiActivityGetNumDroppedRecords, (void *, uint32_t, size_t *), nullptr, 0, &dropped);
	printf("kernels %d, with the id %d, names", s.kernels, s.inside);
	for (auto &name : s.names)
		printf(" %s", name.c_str());
	/* one copy of the program may be several of the device */
	printf("\ncopies %s, %lu bytes, fills %d\n", s.copies ? "some" : "none",
	       (unsigned long)s.bytes, s.fills);
	printf("untied %d, outside of the time %d, before the call %d, dropped %zu\n", s.untied,
	       s.misplaced, s.early, dropped);
	printf("launched by %s\n", s.launcher.c_str());
	printf("driver %s, runtime %s\n", s.kinds[4] ? "some" : "none", s.kinds[5] ? "some" : "none");
	for (uint32_t kind : kinds)
		CUPTI(cuptiActivityDisable, (uint32_t), kind);
	work();
	CUPTI(cuptiActivityFlushAll, (uint32_t), 1);
	s = read_all(from, now());
	printf("afterwards %d\n", s.kernels + s.copies + s.fills + (int)s.calls.size());
	return 0;
}
