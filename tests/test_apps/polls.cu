/*
 * tests/test_apps/polls.cu - asking for events and streams in a loop, as allocators and watchdogs
 * do: not done while something in front holds the stream up, done as soon as anything else tells
 * so.
 *
 * What holds the stream up is a function of the host that waits for a gate. Nothing that might wait
 * for all of the device (memory, code that is loaded at the first launch) happens meanwhile.
 */
#include <atomic>
#include <pthread.h>
#include <unistd.h>

#include "check.h"

#define ASKED 20000
#define THREADS 4
#define RECORDS 200

struct gate {
	std::atomic<int> open, passed;
};

__global__ void add(int *data, int value)
{
	atomicAdd(data, value);
}

static void hold(void *arg)
{
	struct gate *g = (struct gate *)arg;

	while (!g->open)
		usleep(100);
	g->passed++;
}

static void close_gate(struct gate *g, cudaStream_t stream)
{
	g->open = 0;
	CHECK(cudaLaunchHostFunc(stream, hold, g));
}

static cudaError_t until_ready(cudaEvent_t event)
{
	cudaError_t err;

	while ((err = cudaEventQuery(event)) == cudaErrorNotReady)
		;
	return err;
}

static void events(struct gate *g, cudaStream_t stream, int *data)
{
	cudaEvent_t event, later;

	CHECK(cudaEventCreate(&event));
	CHECK(cudaEventCreate(&later));
	CHECK(cudaEventQuery(event));	/* never recorded: nothing to wait for */
	for (int round = 0; round < 3; round++) {
		int not_ready = 0;

		close_gate(g, stream);
		add<<<1, 1, 0, stream>>>(data, 1);
		CHECK(cudaEventRecord(event, stream));
		for (int i = 0; i < ASKED; i++)
			not_ready += cudaEventQuery(event) == cudaErrorNotReady;
		EXPECT(not_ready == ASKED);
		g->open = 1;
		EXPECT(until_ready(event) == cudaSuccess);
		EXPECT(g->passed > round);
		CHECK(cudaEventQuery(event));
		CHECK(cudaEventSynchronize(event));
	}
	/* recorded anew while it is being asked for: it is the last record that counts */
	close_gate(g, stream);
	CHECK(cudaEventRecord(event, stream));
	EXPECT(cudaEventQuery(event) == cudaErrorNotReady);
	g->open = 1;
	EXPECT(until_ready(event) == cudaSuccess);
	close_gate(g, stream);
	EXPECT(cudaEventQuery(event) == cudaSuccess);
	CHECK(cudaEventRecord(event, stream));
	CHECK(cudaEventRecord(later, stream));
	EXPECT(cudaEventQuery(event) == cudaErrorNotReady);
	EXPECT(cudaEventQuery(later) == cudaErrorNotReady);
	g->open = 1;
	/* what a wait for another event has covered is done at once */
	CHECK(cudaEventSynchronize(later));
	CHECK(cudaEventQuery(event));
	CHECK(cudaEventDestroy(event));
	CHECK(cudaEventDestroy(later));
	printf("events: not ready while the gate is shut, ready behind it\n");
}

/* Whatever tells that work is over: the events in front of it are done then, without delay. */
static void causes(struct gate *g, cudaStream_t stream, cudaStream_t other, int *data, int *pinned)
{
	cudaEvent_t event;

	CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	for (int how = 0; how < 5; how++) {
		for (int i = 0; i < 20; i++) {
			close_gate(g, stream);
			CHECK(cudaEventRecord(event, stream));
			EXPECT(cudaEventQuery(event) == cudaErrorNotReady);
			EXPECT(cudaEventQuery(event) == cudaErrorNotReady);
			CHECK(cudaStreamWaitEvent(other, event, 0));
			add<<<1, 1, 0, other>>>(data, 1);
			if (how == 3)
				CHECK(cudaMemcpyAsync(pinned, data, sizeof(int), cudaMemcpyDeviceToHost,
						      other));
			g->open = 1;
			switch (how) {
			case 0:
				CHECK(cudaStreamSynchronize(other));
				break;
			case 1:
				CHECK(cudaDeviceSynchronize());
				break;
			case 2: {
				int back;

				CHECK(cudaMemcpyAsync(&back, data, sizeof(back),
						      cudaMemcpyDeviceToHost, other));
				CHECK(cudaStreamSynchronize(other));
				break;
			}
			case 3:
				while (cudaStreamQuery(other) == cudaErrorNotReady)
					;
				break;
			default:
				CHECK(cudaEventSynchronize(event));
			}
			EXPECT(cudaEventQuery(event) == cudaSuccess);
			CHECK(cudaDeviceSynchronize());
		}
	}
	CHECK(cudaEventDestroy(event));
	printf("events are done when something behind them is\n");
}

static void streams(struct gate *g, cudaStream_t stream, int *data)
{
	int not_ready = 0;

	CHECK(cudaStreamQuery(stream));
	close_gate(g, stream);
	add<<<1, 1, 0, stream>>>(data, 1);
	for (int i = 0; i < ASKED; i++)
		not_ready += cudaStreamQuery(stream) == cudaErrorNotReady;
	EXPECT(not_ready == ASKED);
	g->open = 1;
	while (cudaStreamQuery(stream) == cudaErrorNotReady)
		;
	CHECK(cudaStreamQuery(stream));
	close_gate(g, stream);
	EXPECT(cudaStreamQuery(stream) == cudaErrorNotReady);
	g->open = 1;
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaStreamQuery(stream));
	CHECK(cudaStreamQuery(0));
	printf("streams: the same\n");
}

struct shared {
	cudaEvent_t event;
	std::atomic<int> stop, seen;
};

static void *watch(void *arg)
{
	struct shared *s = (struct shared *)arg;

	while (!s->stop) {
		cudaError_t err = cudaEventQuery(s->event);

		EXPECT(err == cudaSuccess || err == cudaErrorNotReady);
		s->seen++;
	}
	return NULL;
}

/* One thread records and waits; others ask for the same event all the time. */
static void threads(cudaStream_t stream, int *data)
{
	struct shared s = {};
	pthread_t thread[THREADS];

	CHECK(cudaEventCreate(&s.event));
	for (int i = 0; i < THREADS; i++)
		EXPECT(pthread_create(&thread[i], NULL, watch, &s) == 0);
	while (s.seen == 0)
		usleep(100);
	for (int i = 0; i < RECORDS; i++) {
		int before, after;

		CHECK(cudaMemcpyAsync(&before, data, sizeof(before), cudaMemcpyDeviceToHost, stream));
		CHECK(cudaStreamSynchronize(stream));
		add<<<1, 1, 0, stream>>>(data, 1);
		CHECK(cudaEventRecord(s.event, stream));
		EXPECT(until_ready(s.event) == cudaSuccess);
		/* a stream of its own: it waits for nothing but the copy */
		CHECK(cudaMemcpyAsync(&after, data, sizeof(after), cudaMemcpyDeviceToHost,
				      cudaStreamPerThread));
		CHECK(cudaStreamSynchronize(cudaStreamPerThread));
		EXPECT(after == before + 1);
	}
	s.stop = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	CHECK(cudaEventDestroy(s.event));
	printf("%d records, seen by %d threads\n", RECORDS, THREADS);
}

static void times(cudaStream_t stream, int *data)
{
	cudaEvent_t start, end;
	float first, again;

	CHECK(cudaEventCreate(&start));
	CHECK(cudaEventCreate(&end));
	for (int i = 0; i < 3; i++) {
		CHECK(cudaEventRecord(start, stream));
		add<<<1, 1, 0, stream>>>(data, 1);
		CHECK(cudaEventRecord(end, stream));
		CHECK(cudaEventSynchronize(end));
		CHECK(cudaEventElapsedTime(&first, start, end));
		CHECK(cudaEventElapsedTime(&again, start, end));
		EXPECT(first >= 0 && first == again);
		CHECK(cudaEventElapsedTime(&again, start, start));
		EXPECT(again == 0);
	}
	CHECK(cudaEventDestroy(start));
	CHECK(cudaEventDestroy(end));
	printf("times stay\n");
}

int main()
{
	cudaStream_t stream, other;
	struct gate g = {};
	int *data, *pinned;

	CHECK(cudaMalloc(&data, sizeof(*data)));
	CHECK(cudaMallocHost(&pinned, sizeof(*pinned)));
	CHECK(cudaMemset(data, 0, sizeof(*data)));
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	add<<<1, 1>>>(data, 0);		/* loaded */
	add<<<1, 1, 0, cudaStreamPerThread>>>(data, 0);
	CHECK(cudaDeviceSynchronize());
	events(&g, stream, data);
	causes(&g, stream, other, data, pinned);
	streams(&g, stream, data);
	threads(stream, data);
	times(stream, data);
	CHECK(cudaFree(data));
	CHECK(cudaFreeHost(pinned));
	return 0;
}
