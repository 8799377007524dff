/*
 * graph_memory.cu - what a device says of the memory of graphs: before and behind launches, of one
 * graph after another in a stream, with memory that a graph leaves allocated, and when it is
 * trimmed.
 */
#include "check.h"

#define MIB ((size_t)1 << 20)
#define SIZE (64 * MIB)

static unsigned long long ask(cudaGraphMemAttributeType attribute)
{
	unsigned long long value = 1;

	CHECK(cudaDeviceGetGraphMemAttribute(0, attribute, &value));
	return value / MIB;
}

static void tell(const char *when)
{
	printf("%s: used %llu, reserved %llu\n", when, ask(cudaGraphMemAttrUsedMemCurrent),
	       ask(cudaGraphMemAttrReservedMemCurrent));
}

static void tell_high(const char *when)
{
	printf("%s: used %llu, reserved %llu at most\n", when, ask(cudaGraphMemAttrUsedMemHigh),
	       ask(cudaGraphMemAttrReservedMemHigh));
}

/* Allocates, fills and, unless it is to stay, frees. */
static cudaGraphExec_t graph_of(bool frees, void **memory)
{
	cudaMemAllocNodeParams alloc = {};
	cudaGraphNode_t first, fill, last;
	cudaMemsetParams set = {};
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CHECK(cudaGraphCreate(&graph, 0));
	alloc.poolProps.allocType = cudaMemAllocationTypePinned;
	alloc.poolProps.location.type = cudaMemLocationTypeDevice;
	alloc.bytesize = SIZE;
	CHECK(cudaGraphAddMemAllocNode(&first, graph, NULL, 0, &alloc));
	set.dst = *memory = alloc.dptr;
	set.elementSize = 1;
	set.width = 4096;
	set.height = 1;
	CHECK(cudaGraphAddMemsetNode(&fill, graph, &first, 1, &set));
	if (frees)
		CHECK(cudaGraphAddMemFreeNode(&last, graph, &fill, 1, alloc.dptr));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	return exec;
}

static void launch(cudaGraphExec_t exec, cudaStream_t stream)
{
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
}

int main()
{
	cudaGraphExec_t one, two, leaves;
	unsigned long long value = 0;
	cudaStream_t stream;
	void *at, *left;

	CHECK(cudaStreamCreate(&stream));
	tell("at first");
	one = graph_of(true, &at);
	two = graph_of(true, &at);
	leaves = graph_of(false, &left);
	tell("instances");
	launch(one, stream);
	tell("a launch");
	launch(one, stream);
	launch(two, stream);
	tell("more of them");
	launch(leaves, stream);
	launch(one, stream);
	tell("memory left");
	tell_high("until now");
	CHECK(cudaDeviceGraphMemTrim(0));
	tell("trimmed");
	CHECK(cudaFree(left));
	CHECK(cudaGraphExecDestroy(one));
	CHECK(cudaGraphExecDestroy(two));
	CHECK(cudaGraphExecDestroy(leaves));
	CHECK(cudaDeviceGraphMemTrim(0));
	tell("all gone");
	CHECK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &value));
	CHECK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrReservedMemHigh, &value));
	tell_high("set back");
	value = 1;
	printf("other settings: %d %d\n",
	       cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &value),
	       cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &value));
	return 0;
}
