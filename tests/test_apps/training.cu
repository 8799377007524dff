/*
 * tests/test_apps/training.cu - trains a small network, and prints the loss of each step to the
 * last bit.
 *
 *   training [STEPS]     20 if it is not given; with "-" until its input ends
 *
 * Weights and momentum stay on the device, so each loss depends on every step before. All
 * operations round in the way that they say and have one order, so the losses are the same on every
 * GPU.
 */
#include <poll.h>
#include <cstring>
#include <unistd.h>
#include "check.h"

#define INPUTS 8
#define HIDDEN 64
#define BATCH 32
#define RATE 0.0078125f	/* divided by the size of the batch */
#define MOMENTUM 0.875f

struct network {
	float in[HIDDEN][INPUTS], in_speed[HIDDEN][INPUTS];
	float out[HIDDEN], out_speed[HIDDEN];
};

struct batch {
	float x[BATCH][INPUTS], y[BATCH];
};

struct state {
	network net;
	batch data;
	float hidden[BATCH][HIDDEN], error[BATCH], loss;
};

__global__ void forward(state *s)
{
	unsigned int row = blockIdx.x, unit = threadIdx.x;
	float sum = 0;

	for (int i = 0; i < INPUTS; i++)
		sum = __fmaf_rn(s->net.in[unit][i], s->data.x[row][i], sum);
	s->hidden[row][unit] = fmaxf(sum, 0);
	__syncthreads();
	if (unit != 0)
		return;
	sum = 0;
	for (int i = 0; i < HIDDEN; i++)
		sum = __fmaf_rn(s->net.out[i], s->hidden[row][i], sum);
	s->error[row] = __fsub_rn(sum, s->data.y[row]);
}

__device__ void descend(float *weight, float *speed, float gradient)
{
	*speed = __fmaf_rn(MOMENTUM, *speed, gradient);
	*weight = __fmaf_rn(-RATE, *speed, *weight);
}

__global__ void update(state *s)
{
	unsigned int unit = threadIdx.x;
	float out = s->net.out[unit], gradient = 0, loss = 0;

	for (int row = 0; row < BATCH; row++) {
		gradient = __fmaf_rn(s->error[row], s->hidden[row][unit], gradient);
		loss = __fmaf_rn(s->error[row], s->error[row], loss);
	}
	descend(&s->net.out[unit], &s->net.out_speed[unit], gradient);
	for (int i = 0; i < INPUTS; i++) {
		gradient = 0;
		for (int row = 0; row < BATCH; row++)
			if (s->hidden[row][unit] > 0)
				gradient = __fmaf_rn(__fmul_rn(s->error[row], out), s->data.x[row][i], gradient);
		descend(&s->net.in[unit][i], &s->net.in_speed[unit][i], gradient);
	}
	if (unit == 0)
		s->loss = __fmul_rn(loss, 1.0f / BATCH);
}

/* A multiple of 1/128 from -1 to 1. */
static float number(unsigned int *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (float)((int)(*seed >> 24) - 128) / 128;
}

static void start(state *s)
{
	static network net;
	unsigned int seed = 1;

	for (int unit = 0; unit < HIDDEN; unit++) {
		for (int i = 0; i < INPUTS; i++)
			net.in[unit][i] = number(&seed) / 2;
		net.out[unit] = number(&seed) / 4;
	}
	CHECK(cudaMemset(s, 0, sizeof(*s)));
	CHECK(cudaMemcpy(&s->net, &net, sizeof(net), cudaMemcpyHostToDevice));
}

static void step(state *s, batch *data, float *loss, unsigned int *seed, cudaStream_t stream)
{
	for (int row = 0; row < BATCH; row++) {
		for (int i = 0; i < INPUTS; i++)
			data->x[row][i] = number(seed);
		data->y[row] = data->x[row][0] * data->x[row][1];
	}
	CHECK(cudaMemcpyAsync(&s->data, data, sizeof(*data), cudaMemcpyHostToDevice, stream));
	forward<<<BATCH, HIDDEN, 0, stream>>>(s);
	update<<<1, HIDDEN, 0, stream>>>(s);
	CHECK(cudaMemcpyAsync(loss, &s->loss, sizeof(*loss), cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
}

static bool input_has_ended(void)
{
	struct pollfd input = { STDIN_FILENO, POLLIN, 0 };
	char buffer[64];

	return poll(&input, 1, 0) > 0 && read(STDIN_FILENO, buffer, sizeof(buffer)) <= 0;
}

int main(int argc, char **argv)
{
	bool endless = argc > 1 && strcmp(argv[1], "-") == 0;
	long steps = argc > 1 ? atol(argv[1]) : 20;
	unsigned int seed = 7;
	cudaStream_t stream;
	batch *data;
	float *loss;
	state *s;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMalloc(&s, sizeof(*s)));
	CHECK(cudaMallocHost(&data, sizeof(*data)));
	CHECK(cudaMallocHost(&loss, sizeof(*loss)));
	start(s);
	for (long i = 0; endless ? !input_has_ended() : i < steps; i++) {
		step(s, data, loss, &seed, stream);
		printf("%a\n", *loss);
		fflush(stdout);
	}
	return 0;
}
