/*
 * managed_io.cu - managed memory as the buffer of files and pipes, with stdio and without, and
 * touched by several threads at once.
 */
#include <cstring>
#include <pthread.h>
#include <unistd.h>

#include "check.h"

#define SIZE (3 << 20)
#define THREADS 6

__global__ void invert(unsigned char *p, int n)
{
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
		p[i * 512] = ~p[i * 512];
}

static unsigned char *buffer;

static void run()
{
	invert<<<16, 64>>>(buffer, SIZE / 512);
	CHECK(cudaGetLastError());
}

static unsigned char original(long i)
{
	return (unsigned char)(i * 7 + i / 4096);
}

static void *check_part(void *arg)
{
	long part = (long)arg, wrong = 0;

	for (long i = part * 64; i < SIZE; i += THREADS * 64) {
		unsigned char right = original(i);

		wrong += buffer[i] != (unsigned char)(i % 512 ? right : ~right);
		buffer[i + 1] = (unsigned char)part;
	}
	return (void *)wrong;
}

int main()
{
	FILE *file = tmpfile();
	pthread_t threads[THREADS];
	long wrong = 0;
	int ends[2];

	CHECK(cudaMallocManaged(&buffer, SIZE));
	for (long i = 0; i < SIZE; i++)
		buffer[i] = original(i);
	run();
	CHECK(cudaDeviceSynchronize());
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, check_part, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(threads[i], &result);
		wrong += (long)result;
	}
	for (long i = 0; i < SIZE; i += 64)
		wrong += buffer[i + 1] != i / 64 % THREADS;
	printf("threads: %ld wrong\n", wrong);

	run();
	CHECK(cudaDeviceSynchronize());
	printf("fwrite: %zu\n", fwrite(buffer, 1, SIZE, file));
	run();
	CHECK(cudaDeviceSynchronize());
	rewind(file);
	printf("fread: %zu\n", fread(buffer, 1, SIZE, file));
	for (long i = 0; i < SIZE; i += 64)
		wrong += buffer[i] != original(i);
	run();
	EXPECT(pipe(ends) == 0);
	CHECK(cudaDeviceSynchronize());
	printf("write: %zd\n", write(ends[1], buffer, 4096));
	run();
	CHECK(cudaDeviceSynchronize());
	printf("read: %zd\n", read(ends[0], buffer + 8192, 4096));
	wrong += buffer[8192] != (unsigned char)~original(0) || buffer[0] != original(0);
	CHECK(cudaDeviceSynchronize());
	strcpy((char *)buffer, "a string in managed memory");
	run();
	CHECK(cudaDeviceSynchronize());
	buffer[0] = 'A';
	printf("%s\n", (char *)buffer);
	printf("%ld wrong\n", wrong);
	CHECK(cudaFree(buffer));
	return wrong != 0;
}
