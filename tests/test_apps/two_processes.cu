/*
 * two_processes.cu - memory and events of one process in another: cudaIpc handles, memory of the
 * driver's cuMemCreate by its descriptor, memory of a pool. The second process is this program
 * again.
 */
#include <cstring>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "entry.h"

#define N 3000
#define ODD 77 /* bytes of an allocation before it, so that the shared one does not begin a page */

struct message {
	cudaIpcMemHandle_t memory;
	cudaIpcEventHandle_t written;
	size_t size; /* of the memory that the descriptor stands for */
	/* into a pool, whose descriptor comes with the next one */
	cudaMemPoolPtrExportData pointer;
};

__global__ void fill(int *p, int factor)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < N)
		p[i] = i * factor;
}

__global__ void twice(int *p)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < N)
		p[i] *= 2;
}

static void send_message(int sock, const struct message *m, int fd)
{
	char room[CMSG_SPACE(sizeof(int))] = "";
	struct iovec iov = { (void *)m, sizeof(*m) };
	struct msghdr h = {};

	h.msg_iov = &iov;
	h.msg_iovlen = 1;
	h.msg_control = room;
	h.msg_controllen = sizeof(room);
	CMSG_FIRSTHDR(&h)->cmsg_level = SOL_SOCKET;
	CMSG_FIRSTHDR(&h)->cmsg_type = SCM_RIGHTS;
	CMSG_FIRSTHDR(&h)->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&h)), &fd, sizeof(fd));
	EXPECT(sendmsg(sock, &h, 0) == (ssize_t)sizeof(*m));
}

static int receive_message(int sock, struct message *m)
{
	char room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { m, sizeof(*m) };
	struct msghdr h = {};
	int fd;

	h.msg_iov = &iov;
	h.msg_iovlen = 1;
	h.msg_control = room;
	h.msg_controllen = sizeof(room);
	EXPECT(recvmsg(sock, &h, MSG_WAITALL) == (ssize_t)sizeof(*m) && CMSG_FIRSTHDR(&h));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(fd));
	return fd;
}

static int wrong(const int *p, int factor)
{
	static int host[N];
	int count = 0;

	CHECK(cudaMemcpy(host, p, sizeof(host), cudaMemcpyDeviceToHost));
	for (int i = 0; i < N; i++)
		count += host[i] != i * factor;
	return count;
}

static CUmemAllocationProp prop_of_device(void)
{
	CUmemAllocationProp prop = {};

	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return prop;
}

/* Map the memory of a handle, and let the handle go. */
static int *map(CUmemGenericAllocationHandle handle, size_t size)
{
	CUmemAccessDesc desc = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				 CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUdeviceptr at;

	CHECK_CU(CU(cuMemAddressReserve)(&at, size, 0, 0, 0));
	CHECK_CU(CU(cuMemMap)(at, size, 0, handle, 0));
	CHECK_CU(CU(cuMemRelease)(handle));
	CHECK_CU(CU(cuMemSetAccess)(at, size, &desc, 1));
	return (int *)at;
}

static void unmap(int *at, size_t size)
{
	CHECK_CU(CU(cuMemUnmap)((CUdeviceptr)at, size));
	CHECK_CU(CU(cuMemAddressFree)((CUdeviceptr)at, size));
}

/* --- memory of a pool */

static cudaMemPool_t pool_create(void)
{
	cudaMemPoolProps props = {};
	cudaMemPool_t pool;

	props.allocType = cudaMemAllocationTypePinned;
	props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
	props.location.type = cudaMemLocationTypeDevice;
	CHECK(cudaMemPoolCreate(&pool, &props));
	return pool;
}

static void second_pool(int sock, struct message *m)
{
	cudaMemPool_t pool, other = pool_create();
	cudaMemPoolPtrExportData forged;
	int fd = receive_message(sock, m), *p;

	CHECK(cudaMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)fd,
						   cudaMemHandleTypePosixFileDescriptor, 0));
	close(fd);
	memset(&forged, 'x', sizeof(forged));
	EXPECT(cudaMemPoolImportPointer((void **)&p, pool, &forged) != cudaSuccess);
	EXPECT(cudaMemPoolImportPointer((void **)&p, other, &m->pointer) != cudaSuccess);
	cudaGetLastError();
	CHECK(cudaMemPoolImportPointer((void **)&p, pool, &m->pointer));
	printf("second: of the first's pool: %d wrong\n", wrong(p, 7));
	twice<<<(N + 255) / 256, 256>>>(p);
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaFree(p));
	CHECK(cudaMemPoolDestroy(pool));
	CHECK(cudaMemPoolDestroy(other));
}

static void first_pool(int sock, struct message *m)
{
	cudaMemPool_t pool = pool_create();
	int *p, fd;
	char done;

	CHECK(cudaMallocFromPoolAsync((void **)&p, N * sizeof(int), pool, 0));
	fill<<<(N + 255) / 256, 256>>>(p, 7);
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
	CHECK(cudaMemPoolExportPointer(&m->pointer, p));
	send_message(sock, m, fd);
	close(fd);
	EXPECT(read(sock, &done, 1) == 1);
	printf("first: in its pool: %d wrong\n", wrong(p, 14));
	CHECK(cudaFreeAsync(p, 0));
	CHECK(cudaStreamSynchronize(0));
	CHECK(cudaMemPoolDestroy(pool));
}

static int second(int sock)
{
	CUmemGenericAllocationHandle handle;
	struct message m;
	cudaStream_t stream;
	cudaEvent_t written;
	int fd = receive_message(sock, &m), *p, *again, *mapped;

	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaIpcOpenMemHandle((void **)&p, m.memory, cudaIpcMemLazyEnablePeerAccess));
	CHECK(cudaIpcOpenMemHandle((void **)&again, m.memory, cudaIpcMemLazyEnablePeerAccess));
	EXPECT(p == again);
	CHECK(cudaIpcCloseMemHandle(again));
	CHECK(cudaIpcOpenEventHandle(&written, m.written));
	CHECK(cudaStreamWaitEvent(stream, written, 0));
	twice<<<(N + 255) / 256, 256, 0, stream>>>(p);
	CHECK(cudaStreamSynchronize(stream));
	printf("second: memory of the first, doubled: %d wrong\n", wrong(p, 6));
	CHECK(cudaIpcCloseMemHandle(p));
	EXPECT(cudaIpcCloseMemHandle(p) != cudaSuccess);
	cudaGetLastError();
	CHECK_CU(CU(cuMemImportFromShareableHandle)(&handle, (void *)(uintptr_t)fd,
						    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	mapped = map(handle, m.size);
	printf("second: by its descriptor: %d wrong\n", wrong(mapped, 5));
	twice<<<(N + 255) / 256, 256>>>(mapped);
	CHECK(cudaDeviceSynchronize());
	unmap(mapped, m.size);
	CHECK(cudaEventDestroy(written));
	fflush(stdout);
	EXPECT(write(sock, "d", 1) == 1);
	second_pool(sock, &m);
	fflush(stdout);
	EXPECT(write(sock, "d", 1) == 1);
	return 0;
}

static void first(int sock)
{
	CUmemAllocationProp prop = prop_of_device();
	CUmemGenericAllocationHandle handle;
	struct message m;
	cudaEvent_t written, plain;
	int *p, *mapped, fd;
	void *odd;
	char done;

	CHECK(cudaMalloc(&odd, ODD));
	CHECK(cudaMalloc(&p, N * sizeof(int)));
	CHECK(cudaEventCreateWithFlags(&written, cudaEventInterprocess | cudaEventDisableTiming));
	CHECK(cudaEventCreate(&plain));
	EXPECT(cudaIpcGetEventHandle(&m.written, plain) != cudaSuccess); /* of one process alone */
	cudaGetLastError();
	fill<<<(N + 255) / 256, 256>>>(p, 3);
	CHECK(cudaEventRecord(written));
	CHECK(cudaIpcGetMemHandle(&m.memory, p));
	CHECK(cudaIpcGetEventHandle(&m.written, written));
	CHECK_CU(CU(cuMemGetAllocationGranularity)(&m.size, &prop,
						   CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	CHECK_CU(CU(cuMemCreate)(&handle, m.size, &prop, 0));
	CHECK_CU(CU(cuMemExportToShareableHandle)(&fd, handle,
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	mapped = map(handle, m.size); /* the mapping keeps it, and the descriptor stands for it */
	fill<<<(N + 255) / 256, 256>>>(mapped, 5);
	CHECK(cudaDeviceSynchronize());
	send_message(sock, &m, fd);
	close(fd);
	EXPECT(read(sock, &done, 1) == 1);
	printf("first: what the second has written: %d and %d wrong\n", wrong(p, 6),
	       wrong(mapped, 10));
	fflush(stdout);
	unmap(mapped, m.size);
	CHECK(cudaFree(p));
	CHECK(cudaFree(odd));
	first_pool(sock, &m);
}

int main(int argc, char **argv)
{
	char number[16];
	int ends[2], status;
	pid_t pid;

	if (argc > 1)
		return second(atoi(argv[1]));
	EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	pid = fork();
	if (pid == 0) {
		snprintf(number, sizeof(number), "%d", ends[1]);
		execl("/proc/self/exe", argv[0], number, NULL);
		_exit(127);
	}
	close(ends[1]);
	first(ends[0]);
	EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}
