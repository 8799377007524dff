/*
 * tests/test_apps/capture_nowhere.cu - a fill of memory that does not exist, captured to read the
 * node, as cuDNN does, and never launched. Outside of a capture it is refused.
 */
#include "check.h"

#define NOWHERE ((void *)128)
#define SIZE 4096

int main(void)
{
	cudaMemsetParams params;
	cudaGraphNode_t node;
	cudaStream_t stream;
	cudaGraph_t graph;
	size_t count = 1;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	CHECK(cudaMemsetAsync(NOWHERE, 0, SIZE, stream));
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphGetNodes(graph, &node, &count));
	EXPECT(count == 1);
	CHECK(cudaGraphMemsetNodeGetParams(node, &params));
	EXPECT(params.dst == NOWHERE && params.width * params.elementSize == SIZE);
	CHECK(cudaGraphDestroy(graph));
	EXPECT(cudaMemsetAsync(NOWHERE, 0, SIZE, stream) == cudaErrorInvalidValue);
	CHECK(cudaStreamDestroy(stream));
	printf("a fill of %d bytes nowhere was captured\n", SIZE);
	return 0;
}
