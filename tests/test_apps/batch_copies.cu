/*
 * batch_copies.cu - many copies in one call, of lines and of boxes, between host and device.
 */
#include <vector>

#include "check.h"

static const int COPIES = 300;
static const size_t SIZE = 1000;

static cudaMemcpyAttributes in_order(void)
{
	cudaMemcpyAttributes a = {};

	a.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
	return a;
}

static void lines(cudaStream_t stream)
{
	std::vector<unsigned char> in(COPIES * SIZE), out(COPIES * SIZE);
	std::vector<const void *> src;
	std::vector<void *> dst;
	std::vector<size_t> sizes(COPIES, SIZE);
	cudaMemcpyAttributes attrs[2] = { in_order(), in_order() };
	size_t first[2] = { 0, 10 };
	char *a, *b;
	int bad = 0;

	for (size_t i = 0; i < in.size(); i++)
		in[i] = (unsigned char)(i * 11);
	CHECK(cudaMalloc(&a, in.size()));
	CHECK(cudaMalloc(&b, in.size()));
	for (int step = 0; step < 3; step++) {
		const char *from = step == 0 ? (const char *)in.data() : step == 1 ? a : b;
		char *to = step == 0 ? a : step == 1 ? b : (char *)out.data();

		src.clear();
		dst.clear();
		for (int i = 0; i < COPIES; i++) {
			src.push_back(from + i * SIZE);
			dst.push_back(to + i * SIZE);
		}
		CHECK(cudaMemcpyBatchAsync(dst.data(), src.data(), sizes.data(), COPIES, attrs,
					   first, 2, stream));
	}
	CHECK(cudaStreamSynchronize(stream));
	for (size_t i = 0; i < in.size(); i++)
		bad += out[i] != in[i];
	printf("lines: %d wrong\n", bad);

	first[0] = 1;
	printf("attributes of no copy: %s\n",
	       cudaGetErrorName(cudaMemcpyBatchAsync(dst.data(), src.data(), sizes.data(), COPIES,
						     attrs, first, 2, stream)));
	first[0] = 0;
	printf("the null stream: %s\n",
	       cudaGetErrorName(cudaMemcpyBatchAsync(dst.data(), src.data(), sizes.data(), COPIES,
						     attrs, first, 2, 0)));
	cudaGetLastError();
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
}

static cudaMemcpy3DOperand operand(void *at, size_t row, size_t height)
{
	cudaMemcpy3DOperand o = {};

	o.type = cudaMemcpyOperandTypePointer;
	o.op.ptr.ptr = at;
	o.op.ptr.rowLength = row;
	o.op.ptr.layerHeight = height;
	return o;
}

static void boxes(cudaStream_t stream)
{
	const size_t W = 50, H = 20, D = 3, ROW = 64, LAYER = 25;
	std::vector<unsigned char> in(W * H * D), out(W * H * D);
	cudaMemcpy3DBatchOp op = {};
	unsigned char *a;
	int bad = 0;

	for (size_t i = 0; i < in.size(); i++)
		in[i] = (unsigned char)(i * 5);
	CHECK(cudaMalloc(&a, ROW * LAYER * D));
	op.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
	op.extent = make_cudaExtent(W, H, D);
	op.src = operand(in.data(), 0, 0);
	op.dst = operand(a, ROW, LAYER);
	CHECK(cudaMemcpy3DBatchAsync(1, &op, 0, stream));
	op.src = operand(a, ROW, LAYER);
	op.dst = operand(out.data(), 0, 0);
	CHECK(cudaMemcpy3DBatchAsync(1, &op, 0, stream));
	CHECK(cudaStreamSynchronize(stream));
	for (size_t i = 0; i < in.size(); i++)
		bad += out[i] != in[i];
	printf("boxes: %d wrong\n", bad);
	CHECK(cudaFree(a));
}

int main(void)
{
	cudaStream_t stream;

	CHECK(cudaStreamCreate(&stream));
	lines(stream);
	boxes(stream);
	CHECK(cudaStreamDestroy(stream));
	return 0;
}
