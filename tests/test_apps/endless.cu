/*
 * tests/test_apps/endless.cu - goes on with one kind of call (launch, sync, copy, alloc, poll)
 * until a call fails; then prints the error's name and ends with status 3. For tests in which the
 * server goes away in the middle.
 */
#include <cstring>
#include <vector>
#include "check.h"

__global__ void add_one(int *p)
{
	*p += 1;
}

/* One round of the kind of call that was asked for; ROUND numbers them. */
static cudaError_t round_of(const char *kind, int *dev, std::vector<char> &host, int round)
{
	cudaError_t err = cudaSuccess;

	if (strcmp(kind, "launch") == 0 || strcmp(kind, "sync") == 0) {
		add_one<<<1, 1>>>(dev);
		err = cudaGetLastError();
		/* A storm of launches looks up now and then, as programs do. */
		if (err == cudaSuccess && (*kind == 's' || round % 1000 == 999))
			err = cudaDeviceSynchronize();
	} else if (strcmp(kind, "copy") == 0) {
		err = round % 2 ? cudaMemcpy(host.data(), dev, host.size(), cudaMemcpyDeviceToHost)
				: cudaMemcpy(dev, host.data(), host.size(), cudaMemcpyHostToDevice);
	} else if (strcmp(kind, "alloc") == 0) {
		void *p;

		err = cudaMalloc(&p, 4096);
		if (err == cudaSuccess)
			err = cudaFree(p);
	}
	return err;
}

/* Asks for an event behind a kernel that does not end. */
__global__ void spin(volatile int *p)
{
	while (*p == 0)
		;
}

static int poll(int *dev)
{
	cudaError_t err = cudaErrorNotReady;
	cudaEvent_t event;

	CHECK(cudaMemset(dev, 0, sizeof(*dev)));
	CHECK(cudaEventCreate(&event));
	spin<<<1, 1>>>(dev);
	CHECK(cudaEventRecord(event, 0));
	for (int round = 0; err == cudaErrorNotReady; round++) {
		err = cudaEventQuery(event);
		if (round == 1000) {
			printf("running\n");
			fflush(stdout);
		}
	}
	printf("ended: %s\n", cudaGetErrorName(err));
	printf("later: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
	return 3;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "launch";
	std::vector<char> host(32 << 20);
	cudaError_t err = cudaSuccess;
	int *dev;

	CHECK(cudaMalloc(&dev, host.size()));
	if (strcmp(kind, "poll") == 0)
		return poll(dev);
	for (int round = 0; err == cudaSuccess; round++) {
		err = round_of(kind, dev, host, round);
		if (round == 2) {
			printf("running\n");
			fflush(stdout);
		}
	}
	printf("ended: %s\n", cudaGetErrorName(err));
	printf("later: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
	return 3;
}
