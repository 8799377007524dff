/*
 * tests/test_apps/event_pool.cu - memory that is used again when the event behind its last use is
 * done, as allocators of frameworks do: each round records events and queries the oldest ones, once
 * each.
 */
#include <deque>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

#define ROUNDS 120
#define EACH 2
#define PAUSE_US 2000

struct use {
	cudaEvent_t event;
	int number;
};

__global__ void count(int *data)
{
	atomicAdd(data, 1);
}

/* Take back all events in front that are done; how many. */
static int take_back(std::deque<struct use> *uses, std::deque<cudaEvent_t> *free)
{
	int n = 0;

	while (!uses->empty()) {
		cudaError_t err = cudaEventQuery(uses->front().event);

		EXPECT(err == cudaSuccess || err == cudaErrorNotReady);
		if (err == cudaErrorNotReady)
			break;
		free->push_back(uses->front().event);
		uses->pop_front();
		n++;
	}
	return n;
}

/* With a number of rounds, tells how many events it made. */
int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
	std::deque<struct use> uses;
	std::deque<cudaEvent_t> free;
	cudaStream_t stream;
	int *data, seen, made = 0, back = 0;

	CHECK(cudaMalloc(&data, sizeof(*data)));
	CHECK(cudaMemset(data, 0, sizeof(*data)));
	CHECK(cudaDeviceSynchronize());		/* the stream does not wait for it */
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	count<<<1, 1, 0, stream>>>(data);	/* loaded */
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < rounds * EACH; i++) {
		struct use u = {.event = NULL, .number = i};

		back += take_back(&uses, &free);
		if (free.empty()) {
			CHECK(cudaEventCreateWithFlags(&u.event, cudaEventDisableTiming));
			made++;
		} else {
			u.event = free.front();
			free.pop_front();
		}
		count<<<1, 1, 0, stream>>>(data);
		CHECK(cudaEventRecord(u.event, stream));
		uses.push_back(u);
		if (i % EACH == EACH - 1)
			usleep(PAUSE_US);
	}
	CHECK(cudaMemcpyAsync(&seen, data, sizeof(seen), cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	EXPECT(seen == rounds * EACH + 1);
	/* the wait covers all of them */
	back += take_back(&uses, &free);
	EXPECT(uses.empty() && back == rounds * EACH);
	for (cudaEvent_t e : free)
		CHECK(cudaEventDestroy(e));
	CHECK(cudaFree(data));
	if (argc > 1)
		printf("events: %d\n", made);
	printf("%d records, all taken back\n", back);
	return 0;
}
