/*
 * managed_attach.cu - managed memory attached to one stream, or to the host: the host uses it while
 * other streams are busy. Then what CUDA says of advice, prefetches, pointers and wrong calls.
 */
#include "check.h"

__global__ void fill(int *p, int n, int value)
{
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		p[i] = value + i;
}

__global__ void spin(volatile int *flag)
{
	while (*flag == 0)
		;
}

__global__ void copy_first(int *p)
{
	p[1] = p[0] + 1;
}

static void attached()
{
	const int n = 3000;
	cudaStream_t busy, own;
	int *shared, *mine, *hosts, *flag, one = 1;

	CHECK(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&flag, sizeof(*flag)));
	CHECK(cudaMemset(flag, 0, sizeof(*flag)));
	CHECK(cudaMallocManaged(&shared, n * sizeof(int)));
	CHECK(cudaMallocManaged(&mine, n * sizeof(int)));
	CHECK(cudaMallocManaged(&hosts, n * sizeof(int), cudaMemAttachHost));
	CHECK(cudaStreamAttachMemAsync(own, mine, 0, cudaMemAttachSingle));
	/* it is loaded now: later that may wait for the one that spins */
	fill<<<1, 64, 0, own>>>(mine, n, 0);
	CHECK(cudaDeviceSynchronize());
	mine[7] = -1;
	/* a kernel that ends only when the host has done the rest of this */
	spin<<<1, 1, 0, busy>>>(flag);
	hosts[5] = 55;
	fill<<<1, 64, 0, own>>>(mine, n, 100);
	CHECK(cudaStreamSynchronize(own));
	printf("attached to a stream: %d %d %d\n", mine[0], mine[7], mine[n - 1]);
	mine[9] = 9;
	printf("attached to the host: %d\n", hosts[5]);
	CHECK(cudaMemcpyAsync(flag, &one, sizeof(one), cudaMemcpyHostToDevice, own));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaStreamAttachMemAsync(own, hosts, 0, cudaMemAttachGlobal));
	CHECK(cudaStreamSynchronize(own));
	fill<<<1, 64, 0, busy>>>(hosts, 4, 1);
	CHECK(cudaDeviceSynchronize());
	printf("given to all: %d %d\n", hosts[3], hosts[5]);
	/* a stream that goes leaves its memory to all */
	CHECK(cudaStreamDestroy(own));
	fill<<<1, 64, 0, busy>>>(mine, 8, 40);
	CHECK(cudaDeviceSynchronize());
	printf("its stream is gone: %d %d\n", mine[7], mine[9]);
	CHECK(cudaStreamDestroy(busy));
	CHECK(cudaFree(hosts));
	CHECK(cudaFree(mine));
	CHECK(cudaFree(shared));
}

static void copies()
{
	const int n = 5000;
	int *a, *b, *d, *plain = (int *)malloc(n * sizeof(int));

	CHECK(cudaMallocManaged(&a, n * sizeof(int)));
	CHECK(cudaMallocManaged(&b, n * sizeof(int)));
	CHECK(cudaMalloc(&d, n * sizeof(int)));
	for (int i = 0; i < n; i++)
		a[i] = i;
	CHECK(cudaMemcpy(b, a, n * sizeof(int), cudaMemcpyDefault));
	CHECK(cudaMemcpy(d, b, n * sizeof(int), cudaMemcpyHostToDevice));
	CHECK(cudaMemset(b + 10, 0xff, 8));
	CHECK(cudaMemcpy(plain, d, n * sizeof(int), cudaMemcpyDeviceToHost));
	EXPECT(plain[n - 1] == n - 1 && b[9] == 9 && b[10] == -1 && b[12] == 12);
	CHECK(cudaMemcpy(b + 20, plain, 40, cudaMemcpyHostToHost));
	EXPECT(b[20] == 0 && b[21] == 1 && b[30] == 30);
	CHECK(cudaMemcpy2D(a, 40, b, 80, 40, 10, cudaMemcpyDefault));
	EXPECT(a[0] == 0 && a[10] == b[20] && a[20] == 40);
	printf("copies: as they should be\n");
	free(plain);
	CHECK(cudaFree(d));
	CHECK(cudaFree(b));
	CHECK(cudaFree(a));
}

static void CUDART_CB double_first(void *data)
{
	int *p = (int *)data;

	p[0] *= 2;
}

/* A function of the host between two kernels: it sees the first one's work, the second sees its. */
static void function()
{
	int *p;

	CHECK(cudaMallocManaged(&p, 4096));
	fill<<<1, 32>>>(p, 8, 21);
	CHECK(cudaLaunchHostFunc(0, double_first, p));
	copy_first<<<1, 1>>>(p);
	CHECK(cudaDeviceSynchronize());
	printf("host function: %d %d\n", p[0], p[1]);
	CHECK(cudaFree(p));
}

static void questions()
{
	cudaPointerAttributes at;
	cudaMemLocation device = {}, host = {};
	int *p, value = 7, list[3];

	device.type = cudaMemLocationTypeDevice;
	host.type = cudaMemLocationTypeHost;
	CHECK(cudaMallocManaged(&p, 1 << 20));
	CHECK(cudaPointerGetAttributes(&at, p + 5));
	printf("type %d, device %d, same pointer %d\n", at.type, at.device,
	       at.devicePointer == p + 5 && at.hostPointer == p + 5);
	CHECK(cudaMemAdvise(p, 1 << 20, cudaMemAdviseSetReadMostly, device));
	CHECK(cudaMemAdvise(p, 4096, cudaMemAdviseUnsetReadMostly, device));
	CHECK(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeReadMostly, p, 1 << 20));
	printf("read mostly: all %d", value);
	CHECK(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeReadMostly, p + 2048, 4096));
	printf(", part %d\n", value);
	CHECK(cudaMemAdvise(p, 1 << 20, cudaMemAdviseSetPreferredLocation, host));
	CHECK(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributePreferredLocation, p, 64));
	CHECK(cudaMemAdvise(p, 1 << 20, cudaMemAdviseSetAccessedBy, device));
	CHECK(cudaMemRangeGetAttribute(list, 12, cudaMemRangeAttributeAccessedBy, p, 64));
	printf("preferred %d, accessed by %d %d %d\n", value, list[0], list[1], list[2]);
	p[3] = 33;
	CHECK(cudaMemPrefetchAsync(p, 1 << 20, device, 0, 0));
	CHECK(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeLastPrefetchLocation, p, 64));
	fill<<<1, 32>>>(p, 3, 5);
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemPrefetchAsync(p, 1 << 20, host, 0, 0));
	CHECK(cudaDeviceSynchronize());
	printf("prefetched to %d: %d %d\n", value, p[2], p[3]);
	CHECK(cudaFree(p));
}

static void errors()
{
	cudaMemLocation nowhere = {};
	int *p, *d, value;

	nowhere.type = cudaMemLocationTypeDevice;
	nowhere.id = 99;
	CHECK(cudaMallocManaged(&p, 8192));
	CHECK(cudaMalloc(&d, 64));
	printf("%s\n", cudaGetErrorName(cudaMallocManaged(&p, 64, 9)));
	printf("%s\n", cudaGetErrorName(cudaMallocManaged(&p, 0)));
	printf("%s\n", cudaGetErrorName(cudaStreamAttachMemAsync(0, p, 0, cudaMemAttachSingle)));
	printf("%s\n", cudaGetErrorName(cudaStreamAttachMemAsync(0, d, 0, cudaMemAttachHost)));
	printf("%s\n", cudaGetErrorName(cudaStreamAttachMemAsync(0, p, 4096, cudaMemAttachHost)));
	printf("%s\n", cudaGetErrorName(cudaMemPrefetchAsync(p, 8193, nowhere, 0, 0)));
	printf("%s\n", cudaGetErrorName(cudaMemPrefetchAsync(p, 8192, nowhere, 0, 0)));
	printf("%s\n", cudaGetErrorName(cudaMemRangeGetAttribute(&value, 8, cudaMemRangeAttributeReadMostly, p, 1)));
	printf("%s\n", cudaGetErrorName(cudaMallocManaged(&p, 1ull << 60)));
	cudaGetLastError();
}

int main()
{
	attached();
	copies();
	function();
	questions();
	errors();
	return 0;
}
