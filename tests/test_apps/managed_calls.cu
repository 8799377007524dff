/*
 * managed_calls.cu - memory that a kernel wrote last, as the buffer of each system call that moves
 * bytes: managed memory, and pinned memory that kernels use. The kernel writes a letter, the call
 * reads it or writes over it.
 */
#include <aio.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check.h"

#define SIZE (64 << 10)
#define PART 3000

extern "C" {
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread64_chk(int, void *, size_t, off64_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
size_t __fread_chk(void *, size_t, size_t, size_t, FILE *);
}

__global__ void fill(char *p, char letter)
{
	for (int i = threadIdx.x; i < SIZE; i += blockDim.x)
		p[i] = letter;
}

static char *memory, plain[SIZE];
static struct iovec parts[2];
static const char *where;
static int wrong;

/* The device has all of the memory. */
static void give(char letter)
{
	fill<<<1, 256>>>(memory, letter);
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize());
}

static void judge(const char *call, long got, long wanted, const char *bytes, char letter)
{
	int error = errno;

	for (long i = 0; got == wanted && i < PART; i++) {
		if (bytes[i] != letter)
			got = -2 - i;
	}
	if (got == wanted)
		return;
	wrong++;
	printf("%s, %s: %ld (%s)\n", where, call, got, got == -1 ? strerror(error) : "bytes");
}

static int fd, ends[2], tube[2];

/* The call takes 'd' from the memory; then the bytes are in the file, or at the other end. */
#define TAKES(call, wanted, fetched)                                                               \
	do {                                                                                       \
		give('d');                                                                         \
		memset(plain, 0, SIZE);                                                            \
		long got = call;                                                                   \
		if (got == (wanted))                                                               \
			EXPECT((fetched) >= PART);                                                 \
		judge(#call, got, wanted, plain, 'd');                                             \
	} while (0)
#define IN_FILE pread(fd, plain, PART, 0)
#define AT_END recv(ends[1], plain, SIZE, MSG_DONTWAIT)

/* The call writes 'h' into the memory; @before provides the bytes. */
#define WRITES(before, call, wanted, at)                                                           \
	do {                                                                                       \
		memset(plain, 'h', SIZE);                                                          \
		EXPECT((before) >= 0);                                                             \
		give('d');                                                                         \
		long got = call;                                                                   \
		judge(#call, got, wanted, at, 'h');                                                \
	} while (0)
#define FILE_OF_H (pwrite(fd, plain, 2 * PART, 0), lseek(fd, 0, SEEK_SET))
#define SENT_H send(ends[1], plain, 2 * PART, 0)

static void files()
{
	char *m = memory + 5;

	TAKES((lseek(fd, 0, SEEK_SET), write(fd, m, PART)), PART, IN_FILE);
	TAKES(pwrite(fd, m, PART, 0), PART, IN_FILE);
	TAKES(pwrite64(fd, m, PART, 0), PART, IN_FILE);
	TAKES((lseek(fd, 0, SEEK_SET), writev(fd, parts, 2)), 2 * PART, IN_FILE);
	TAKES(pwritev(fd, parts, 2, 0), 2 * PART, IN_FILE);
	TAKES(pwritev64(fd, parts, 2, 0), 2 * PART, IN_FILE);
	TAKES(pwritev2(fd, parts, 2, 0, 0), 2 * PART, IN_FILE);
	TAKES(pwritev64v2(fd, parts, 2, 0, 0), 2 * PART, IN_FILE);
	WRITES(FILE_OF_H, read(fd, m, PART), PART, m);
	WRITES(FILE_OF_H, pread(fd, m, PART, 0), PART, m);
	WRITES(FILE_OF_H, pread64(fd, m, PART, 0), PART, m);
	WRITES(FILE_OF_H, readv(fd, parts, 2), 2 * PART, (char *)parts[1].iov_base);
	WRITES(FILE_OF_H, preadv(fd, parts, 2, 0), 2 * PART, (char *)parts[1].iov_base);
	WRITES(FILE_OF_H, preadv64(fd, parts, 2, 0), 2 * PART, (char *)parts[1].iov_base);
	WRITES(FILE_OF_H, preadv2(fd, parts, 2, 0, 0), 2 * PART, (char *)parts[1].iov_base);
	WRITES(FILE_OF_H, preadv64v2(fd, parts, 2, 0, 0), 2 * PART, (char *)parts[1].iov_base);
	WRITES(FILE_OF_H, __read_chk(fd, m, PART, SIZE), PART, m);
	WRITES(FILE_OF_H, __pread64_chk(fd, m, PART, 0, SIZE), PART, m);
	TAKES(vmsplice(tube[1], parts, 2, 0), 2 * PART, read(tube[0], plain, 2 * PART));
}

static void sockets()
{
	char *m = memory + 4090;
	struct msghdr msg = {};
	struct mmsghdr several[2] = {};
	/* the header itself in the memory, as members of managed objects are */
	struct msghdr *own = (struct msghdr *)(memory + 32768);

	msg.msg_iov = parts;
	msg.msg_iovlen = 2;
	several[0].msg_hdr = several[1].msg_hdr = msg;
	TAKES(send(ends[0], m, PART, 0), PART, AT_END);
	TAKES(sendto(ends[0], m, PART, 0, NULL, 0), PART, AT_END);
	TAKES(sendmsg(ends[0], &msg, 0), 2 * PART, AT_END);
	TAKES((*own = msg, sendmsg(ends[0], own, 0)), 2 * PART, AT_END);
	TAKES(sendmmsg(ends[0], several, 2, 0), 2, recv(ends[1], plain, SIZE, MSG_DONTWAIT));
	EXPECT(recv(ends[1], plain, SIZE, MSG_DONTWAIT) > 0);
	WRITES(SENT_H, recv(ends[0], m, PART, 0), PART, m);
	WRITES(SENT_H, recvfrom(ends[0], m, PART, 0, NULL, NULL), PART, m);
	WRITES(SENT_H, recvmsg(ends[0], &msg, 0), 2 * PART, (char *)parts[1].iov_base);
	WRITES(SENT_H, recvmmsg(ends[0], several, 1, 0, NULL), 1, (char *)parts[1].iov_base);
	WRITES(SENT_H, __recv_chk(ends[0], m, PART, SIZE, 0), PART, m);
	WRITES(SENT_H, __recvfrom_chk(ends[0], m, PART, SIZE, 0, NULL, NULL), PART, m);
	/* a pair of these keeps the limits of each message, so nothing is left over */
	EXPECT(recv(ends[0], plain, SIZE, MSG_DONTWAIT) == -1);
}

static void streams(FILE *file)
{
	char *m = memory + 1;
	char name[64];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	TAKES((rewind(file), fwrite(m, 1, SIZE - 1, file)) + fflush(file), SIZE - 1, IN_FILE);
	TAKES((rewind(file), fwrite_unlocked(m, 1, SIZE - 1, file)) + fflush(file), SIZE - 1, IN_FILE);
	TAKES(!std::ofstream(name, std::ios::in).write(m, SIZE - 1).flush().good(), 0, IN_FILE);
	memset(plain, 'h', SIZE);
	EXPECT(pwrite(fd, plain, SIZE, 0) == SIZE);
	WRITES((rewind(file), 0), fread(m, 1, SIZE - 1, file), SIZE - 1, m);
	WRITES((rewind(file), 0), fread_unlocked(m, 1, SIZE - 1, file), SIZE - 1, m);
	WRITES((rewind(file), 0), __fread_chk(m, SIZE, 1, SIZE - 1, file), SIZE - 1, m);
	WRITES(0, !std::ifstream(name).read(m, SIZE - 1).good(), 0, m);
}

static long finish(struct aiocb *cb)
{
	const struct aiocb *list[] = {cb};

	while (aio_error(cb) == EINPROGRESS)
		aio_suspend(list, 1, NULL);
	errno = aio_error(cb);
	return aio_return(cb);
}

static void asynchronous()
{
	struct aiocb cb = {}, *list[] = {&cb};

	cb.aio_fildes = fd;
	cb.aio_buf = memory + 9000;
	cb.aio_nbytes = PART;
	TAKES(aio_write(&cb) ? -1 : finish(&cb), PART, IN_FILE);
	WRITES(FILE_OF_H, aio_read(&cb) ? -1 : finish(&cb), PART, memory + 9000);
	cb.aio_lio_opcode = LIO_WRITE;
	TAKES(lio_listio(LIO_WAIT, list, 1, NULL) ? -1 : finish(&cb), PART, IN_FILE);
	cb.aio_lio_opcode = LIO_READ;
	WRITES(FILE_OF_H, lio_listio(LIO_WAIT, list, 1, NULL) ? -1 : finish(&cb), PART, memory + 9000);
}

static void processes()
{
	int queue = msgget(IPC_PRIVATE, 0600);
	struct letter {
		long type;
		char text[PART];
	} *m = (struct letter *)(memory + 8192), l = {1, {}};
	struct iovec there = {plain, PART};

	TAKES(process_vm_writev(getpid(), parts, 1, &there, 1, 0), PART, PART);
	WRITES(0, process_vm_readv(getpid(), parts, 1, &there, 1, 0), PART, (char *)parts[0].iov_base);
	give('d');
	errno = 0;
	judge("getrandom", getrandom(memory, 256, 0), 256, memory + 8192, 'd');
	give('d');
	judge("getentropy", getentropy(memory, 256), 0, memory + 8192, 'd');
	if (queue < 0) /* the system has none */
		return;
	memset(l.text, 'h', PART);
	EXPECT(msgsnd(queue, &l, PART, 0) == 0);
	give('d');
	judge("msgrcv", msgrcv(queue, m, PART, 0, 0), PART, m->text, 'h');
	give('d');
	m->type = 1;
	judge("msgsnd", msgsnd(queue, m, PART, 0), 0, m->text, 'd');
	msgctl(queue, IPC_RMID, NULL);
}

static void calls(const char *name)
{
	FILE *file = tmpfile();

	where = name;
	fd = fileno(file);
	parts[0] = {memory, PART};
	parts[1] = {memory + 20000, PART};
	files();
	sockets();
	streams(file);
	asynchronous();
	processes();
	fclose(file);
	printf("%s: %d wrong\n", name, wrong);
}

int main()
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0 && pipe(tube) == 0);
	CHECK(cudaMallocManaged(&memory, SIZE));
	calls("managed");
	CHECK(cudaFree(memory));
	CHECK(cudaMallocHost(&memory, SIZE));
	calls("pinned");
	CHECK(cudaFreeHost(memory));
	return wrong != 0;
}
