/*
 * tests/test_apps/resume.cu - four threads train: uploads, kernels, events between streams,
 * functions of the host, copies back to pinned memory, and a managed sum. All numbers are integers,
 * so the end is the same to the bit; each kernel counts its launches, so that one which ran twice,
 * or not at all, shows.
 */
#include <thread>
#include <vector>
#include "check.h"

#define THREADS 4
#define STEPS 40
#define WIDTH 2048

struct counts {
	unsigned int forward, update, sum;
};

__global__ void forward(const unsigned int *weights, const unsigned int *batch, unsigned int *out, counts *c)
{
	unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;

	out[i] = weights[i] * batch[i] + (weights[(i + 1) % WIDTH] >> 3);
	if (i == 0)
		atomicAdd(&c->forward, 1u);
}

__global__ void update(unsigned int *weights, const unsigned int *out, unsigned int *loss, counts *c)
{
	unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;

	weights[i] = weights[i] * 1664525u + out[i];
	if (i == 0) {
		*loss = weights[0] ^ out[WIDTH - 1];
		atomicAdd(&c->update, 1u);
	}
}

__global__ void add(unsigned long long *managed, const unsigned int *loss, counts *c)
{
	*managed = *managed * 31 + *loss;
	c->sum++;
}

struct worker {
	unsigned int *weights, *batch, *out, *loss, *host_batch, *host_loss;
	unsigned long long *managed;
	counts *device, *host;
	unsigned int calls, digest;
	cudaStream_t stream;
};

static void CUDART_CB called(void *arg)
{
	((worker *)arg)->calls++;
}

static void prepare(worker &w, unsigned int seed)
{
	std::vector<unsigned int> start(WIDTH);

	for (unsigned int i = 0; i < WIDTH; i++)
		start[i] = seed * 2654435761u + i * 40503u;
	CHECK(cudaStreamCreateWithFlags(&w.stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&w.weights, WIDTH * 4));
	CHECK(cudaMalloc(&w.batch, WIDTH * 4));
	CHECK(cudaMalloc(&w.out, WIDTH * 4));
	CHECK(cudaMalloc(&w.loss, 4));
	CHECK(cudaMalloc(&w.device, sizeof(counts)));
	CHECK(cudaMallocHost(&w.host_batch, WIDTH * 4));
	CHECK(cudaMallocHost(&w.host_loss, STEPS * 4));
	CHECK(cudaMallocHost(&w.host, sizeof(counts)));
	CHECK(cudaMallocManaged(&w.managed, 8));
	CHECK(cudaMemset(w.device, 0, sizeof(counts)));
	CHECK(cudaMemcpy(w.weights, start.data(), WIDTH * 4, cudaMemcpyHostToDevice));
	CHECK(cudaDeviceSynchronize());
	*w.managed = seed;
	w.calls = w.digest = 0;
}

static void train(worker *all, int me)
{
	worker &w = all[me];
	cudaEvent_t uploaded, done;

	CHECK(cudaEventCreate(&uploaded));
	CHECK(cudaEventCreate(&done));
	for (int step = 0; step < STEPS; step++) {
		for (int i = 0; i < WIDTH; i++)
			w.host_batch[i] = (unsigned int)(step * 97 + me * 13 + i);
		CHECK(cudaMemcpyAsync(w.batch, w.host_batch, WIDTH * 4, cudaMemcpyHostToDevice, w.stream));
		CHECK(cudaEventRecord(uploaded, w.stream));
		forward<<<WIDTH / 256, 256, 0, w.stream>>>(w.weights, w.batch, w.out, w.device);
		update<<<WIDTH / 256, 256, 0, w.stream>>>(w.weights, w.out, w.loss, w.device);
		CHECK(cudaMemcpyAsync(&w.host_loss[step], w.loss, 4, cudaMemcpyDeviceToHost, w.stream));
		CHECK(cudaLaunchHostFunc(w.stream, called, &w));
		CHECK(cudaEventRecord(done, w.stream));
		CHECK(cudaEventSynchronize(uploaded)); /* the batch may be filled again */
		if (step % 5 == 4) {
			while (cudaEventQuery(done) == cudaErrorNotReady)
				;
			CHECK(cudaEventSynchronize(done));
			w.digest = w.digest * 33 + w.host_loss[step];
		}
	}
	CHECK(cudaStreamSynchronize(w.stream));
	CHECK(cudaMemcpyAsync(w.host, w.device, sizeof(counts), cudaMemcpyDeviceToHost, w.stream));
	CHECK(cudaStreamSynchronize(w.stream));
}

int main()
{
	static worker all[THREADS];
	std::vector<std::thread> threads;
	unsigned int digest[THREADS];

	for (int i = 0; i < THREADS; i++)
		prepare(all[i], (unsigned int)i + 1);
	for (int i = 0; i < THREADS; i++)
		threads.emplace_back(train, all, i);
	for (auto &t : threads)
		t.join();
	for (int i = 0; i < THREADS; i++) {
		worker &w = all[i];
		std::vector<unsigned int> weights(WIDTH);

		for (int step = 0; step < 10; step++) {
			add<<<1, 1>>>(w.managed, w.loss, w.device);
			CHECK(cudaDeviceSynchronize());
			*w.managed += 1;
		}
		CHECK(cudaMemcpy(weights.data(), w.weights, WIDTH * 4, cudaMemcpyDeviceToHost));
		CHECK(cudaMemcpy(w.host, w.device, sizeof(counts), cudaMemcpyDeviceToHost));
		digest[i] = w.digest;
		for (int step = 0; step < STEPS; step++)
			digest[i] = digest[i] * 33 + w.host_loss[step];
		for (int k = 0; k < WIDTH; k++)
			digest[i] = digest[i] * 33 + weights[k];
		printf("thread %d: digest %08x, managed %016llx\n", i, digest[i], *w.managed);
		printf("  launches: forward %u, update %u, sum %u; functions of the host: %u\n", w.host->forward,
		       w.host->update, w.host->sum, w.calls);
	}
	return 0;
}
