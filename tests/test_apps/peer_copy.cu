/*
 * peer_copy.cu - copies between two devices, or between one and itself where there is no second.
 */
#include <algorithm>
#include <vector>

#include "check.h"

static const size_t ROW = 100, ROWS = 50, PLANES = 4, BYTES = 4096;

static void linear(int from, int to, bool async)
{
	std::vector<unsigned char> in(BYTES * 3), out(BYTES * 3);
	unsigned char *a, *b;
	int bad = 0;

	for (size_t i = 0; i < in.size(); i++)
		in[i] = (unsigned char)(i * 7 + async);
	CHECK(cudaSetDevice(from));
	CHECK(cudaMalloc(&a, in.size()));
	CHECK(cudaMemcpy(a, in.data(), in.size(), cudaMemcpyHostToDevice));
	CHECK(cudaSetDevice(to));
	CHECK(cudaMalloc(&b, in.size()));
	CHECK(cudaMemset(b, 0, in.size()));
	CHECK(cudaDeviceSynchronize());
	if (async)
		CHECK(cudaMemcpyPeerAsync(b + 1, to, a + 1, from, in.size() - 1, 0));
	else
		CHECK(cudaMemcpyPeer(b + 1, to, a + 1, from, in.size() - 1));
	CHECK(cudaMemcpy(out.data(), b, out.size(), cudaMemcpyDeviceToHost));
	for (size_t i = 1; i < in.size(); i++)
		bad += out[i] != in[i];
	EXPECT(out[0] == 0);
	printf("%s: %d wrong\n", async ? "peer, asynchronous" : "peer", bad);
	printf("too long: %s\n",
	       cudaGetErrorName(cudaMemcpyPeer(b + 1, to, a, from, in.size())));
	cudaGetLastError();
	CHECK(cudaFree(b));
	CHECK(cudaSetDevice(from));
	CHECK(cudaFree(a));
}

static void boxes(int from, int to, bool async)
{
	std::vector<unsigned char> in(ROW * ROWS * PLANES), out(in.size());
	cudaMemcpy3DPeerParms p = {};
	cudaPitchedPtr a, b;
	cudaExtent all = make_cudaExtent(ROW, ROWS, PLANES);
	int bad = 0;

	for (size_t i = 0; i < in.size(); i++)
		in[i] = (unsigned char)(i * 13);
	CHECK(cudaSetDevice(from));
	CHECK(cudaMalloc3D(&a, all));
	CHECK(cudaSetDevice(to));
	CHECK(cudaMalloc3D(&b, all));
	CHECK(cudaMemcpy2D(a.ptr, a.pitch, in.data(), ROW, ROW, ROWS * PLANES,
			   cudaMemcpyHostToDevice));
	p.extent = all;
	p.srcPtr = a;
	p.srcDevice = from;
	p.dstPtr = b;
	p.dstDevice = to;
	if (async)
		CHECK(cudaMemcpy3DPeerAsync(&p, 0));
	else
		CHECK(cudaMemcpy3DPeer(&p));
	CHECK(cudaMemcpy2D(out.data(), ROW, b.ptr, b.pitch, ROW, ROWS * PLANES,
			   cudaMemcpyDeviceToHost));
	CHECK(cudaDeviceSynchronize());
	for (size_t i = 0; i < in.size(); i++)
		bad += out[i] != in[i];
	printf("%s: %d wrong\n", async ? "boxes, asynchronous" : "boxes", bad);
	CHECK(cudaFree(a.ptr));
	CHECK(cudaFree(b.ptr));
}

/* An event belongs to its device: in a stream of another one it is refused at once. */
static void events(int from, int to)
{
	cudaStream_t there;
	cudaEvent_t here;

	if (from == to)
		return;
	CHECK(cudaSetDevice(to));
	CHECK(cudaStreamCreate(&there));
	CHECK(cudaSetDevice(from));
	CHECK(cudaEventCreate(&here));
	EXPECT(cudaEventRecord(here, there) == cudaErrorInvalidResourceHandle);
	cudaGetLastError();
	CHECK(cudaEventRecord(here));
	CHECK(cudaStreamWaitEvent(there, here));
	CHECK(cudaStreamSynchronize(there));
	CHECK(cudaEventDestroy(here));
	CHECK(cudaStreamDestroy(there));
}

static const int MANY = 1 << 20;

/* Copies and launches of graphs may be asked for in a stream of another device. */
static void streams(int from, int to)
{
	std::vector<int> in(MANY), out(MANY);
	cudaStream_t there;
	cudaGraphExec_t exec;
	cudaGraphNode_t node;
	cudaGraph_t graph;
	int *memory, *pinned;

	for (int i = 0; i < MANY; i++)
		in[i] = i * 7;
	CHECK(cudaSetDevice(to));
	CHECK(cudaStreamCreateWithFlags(&there, cudaStreamNonBlocking));
	CHECK(cudaSetDevice(from));
	CHECK(cudaMalloc(&memory, MANY * sizeof(int)));
	CHECK(cudaMallocHost(&pinned, MANY * sizeof(int)));
	for (int size : {5, MANY}) {	/* small and large ones take ways of their own */
		CHECK(cudaMemcpyAsync(memory, in.data(), size * sizeof(int),
				      cudaMemcpyHostToDevice, there));
		CHECK(cudaMemcpyAsync(out.data(), memory, size * sizeof(int),
				      cudaMemcpyDeviceToHost, there));
		CHECK(cudaMemcpyAsync(pinned, memory, size * sizeof(int),
				      cudaMemcpyDeviceToHost, there));
		CHECK(cudaStreamSynchronize(there));
		EXPECT(std::equal(in.begin(), in.begin() + size, out.begin()));
		EXPECT(std::equal(in.begin(), in.begin() + size, pinned));
	}
	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphAddMemcpyNode1D(&node, graph, NULL, 0, memory, in.data() + 100, 400,
				       cudaMemcpyHostToDevice));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphLaunch(exec, there));
	CHECK(cudaStreamSynchronize(there));
	CHECK(cudaMemcpy(out.data(), memory, 400, cudaMemcpyDeviceToHost));
	EXPECT(std::equal(in.begin() + 100, in.begin() + 200, out.begin()));
	CHECK(cudaGetLastError());
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaStreamDestroy(there));
	CHECK(cudaFreeHost(pinned));
	CHECK(cudaFree(memory));
	printf("streams of another device\n");
}

int main(void)
{
	int count = 0, other;

	CHECK(cudaGetDeviceCount(&count));
	other = count > 1 ? 1 : 0;
	linear(0, other, false);
	linear(other, 0, true);
	boxes(0, other, false);
	boxes(other, 0, true);
	events(0, other);
	streams(0, other);
	streams(other, 0);
	return 0;
}
