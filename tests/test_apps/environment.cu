/*
 * tests/test_apps/environment.cu - what the variables of CUDA do to a program.
 *
 *   environment devices      the devices that it sees: PCI bus ids, in order
 *   environment uuids        the same by their UUIDs
 *   environment fault        what is known right after the launch of a kernel that faults
 *   environment loading      how modules are loaded
 */
#include <cstring>

#include "check.h"

__global__ void fault(int *nowhere)
{
	*nowhere = 1;
}

static int devices(bool uuids)
{
	int count = 0;
	cudaError_t err = cudaGetDeviceCount(&count);

	if (err)
		return printf("%s\n", cudaGetErrorName(err)), 0;
	for (int i = 0; i < count; i++) {
		cudaDeviceProp p;
		char bus[32];

		CHECK(cudaGetDeviceProperties(&p, i));
		CHECK(cudaDeviceGetPCIBusId(bus, sizeof(bus), i));
		if (!uuids) {
			printf("%s\n", bus);
			continue;
		}
		printf("GPU-");
		for (int b = 0; b < 16; b++)
			printf("%s%02x", b == 4 || b == 6 || b == 8 || b == 10 ? "-" : "",
			       (unsigned char)p.uuid.bytes[b]);
		printf("\n");
	}
	return 0;
}

static int faulting()
{
	cudaError_t at_launch, after;

	CHECK(cudaFree(0));
	fault<<<1, 1>>>((int *)16);
	at_launch = cudaGetLastError();
	after = cudaDeviceSynchronize();
	printf("at the launch: %s; after: %s\n", cudaGetErrorName(at_launch), cudaGetErrorName(after));
	return 0;
}

static int loading()
{
	int (*mode)(int *) = NULL, value = 0;
	cudaDriverEntryPointQueryResult found;

	CHECK(cudaFree(0));
	CHECK(cudaGetDriverEntryPointByVersion("cuModuleGetLoadingMode", (void **)&mode, 12000,
					       cudaEnableDefault, &found));
	EXPECT(mode && mode(&value) == 0);
	printf("%s\n", value == 1 ? "eager" : value == 2 ? "lazy" : "?");
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "fault") == 0)
		return faulting();
	if (strcmp(what, "loading") == 0)
		return loading();
	if (strcmp(what, "devices") == 0 || strcmp(what, "uuids") == 0)
		return devices(what[0] == 'u');
	fprintf(stderr, "environment devices|uuids|fault|loading\n");
	return 2;
}
