/*
 * managed_during.cu - a kernel is launched while another thread is inside of a system call on
 * managed memory. The call moves all bytes, and those that the kernel writes beside them arrive
 * too.
 */
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "check.h"

#define SIZE (1 << 20)
#define PART 6000 /* of it, more than a page */

static char *memory, plain[SIZE];
static struct iovec parts[2];
static int ends[2]; /* the call uses the first */
static int wrong, queue;
static volatile int tid, over;

__global__ void mark(char *p, char letter)
{
	p[0] = p[SIZE - 1] = letter;
}

/* --- the other thread's calls */

static long receive()
{
	return recv(ends[0], parts[0].iov_base, 2 * PART, 0);
}

static long receive_from()
{
	socklen_t *length = (socklen_t *)(memory + 16);

	*length = 32;
	return recvfrom(ends[0], parts[0].iov_base, 2 * PART, 0, (struct sockaddr *)(memory + 32), length);
}

static long receive_message()
{
	struct msghdr *msg = (struct msghdr *)(memory + 16); /* itself in the memory */

	memset(msg, 0, sizeof(*msg));
	msg->msg_iov = parts;
	msg->msg_iovlen = 2;
	return recvmsg(ends[0], msg, MSG_WAITALL);
}

static long receive_messages()
{
	struct mmsghdr several[1] = {};

	several[0].msg_hdr.msg_iov = parts;
	several[0].msg_hdr.msg_iovlen = 2;
	return recvmmsg(ends[0], several, 1, 0, NULL) == 1 ? (long)several[0].msg_len : -1;
}

static long receive_letter()
{
	return msgrcv(queue, (char *)parts[0].iov_base - sizeof(long), 2 * PART, 0, 0);
}

static long read_parts()
{
	return readv(ends[0], parts, 2);
}

static long read_items()
{
	FILE *file = fdopen(ends[0], "r");
	long got = fread(parts[0].iov_base, 2, PART, file) * 2;

	fclose(file);
	return got;
}

static long write_all()
{
	return write(ends[0], memory + 100, SIZE - 200);
}

/* --- what happens meanwhile */

static void *run_call(void *call)
{
	long (*f)() = (long (*)())call, got;

	tid = (int)syscall(SYS_gettid);
	got = f();
	over = 1;
	return (void *)got;
}

/* Wait until the other thread is in system call @number with @first as its first argument. */
static void await_call(long number, int first)
{
	char name[64], line[256];

	while (!tid)
		usleep(100);
	snprintf(name, sizeof(name), "/proc/self/task/%d/syscall", tid);
	for (;;) {
		FILE *file = fopen(name, "r");
		long call = -1;
		unsigned long argument = 0;

		EXPECT(file && fgets(line, sizeof(line), file));
		fclose(file);
		if (sscanf(line, "%ld %lx", &call, &argument) == 2 && call == number && (int)argument == first)
			return;
		usleep(1000);
	}
}

static char letter = 'a';

static void judge(const char *name, long got, long wanted, const char *bytes)
{
	for (long i = 0; got == wanted && i < wanted; i++)
		if (bytes[i] != 'h')
			got = -2 - i;
	CHECK(cudaDeviceSynchronize());
	if (memory[0] != letter || memory[SIZE - 1] != letter)
		got = -1000000;
	if (got != wanted)
		printf("%s: %ld\n", name, got);
	wrong += got != wanted;
}

/* The kernel's bytes are in the pages of the call. */
static void launch()
{
	mark<<<1, 1>>>(memory, ++letter);
	CHECK(cudaGetLastError());
}

static void begin(pthread_t *thread, long (*call)(), long number, int first)
{
	memset(memory, 'd', SIZE);
	tid = over = 0;
	EXPECT(pthread_create(thread, NULL, run_call, (void *)call) == 0);
	await_call(number, first);
}

static long end(pthread_t thread)
{
	void *got;

	pthread_join(thread, &got);
	return (long)got;
}

/* A message of two parts; if it is lost, the next one is received, whose bytes are wrong. */
static void message(const char *name, int type, long (*call)(), long number)
{
	pthread_t thread;

	EXPECT(socketpair(AF_UNIX, type, 0, ends) == 0);
	begin(&thread, call, number, ends[0]);
	launch();
	EXPECT(send(ends[1], plain, 2 * PART, 0) == 2 * PART && send(ends[1], "lost", 4, 0) == 4);
	judge(name, end(thread), 2 * PART, (char *)parts[0].iov_base);
	close(ends[0]);
	close(ends[1]);
}

/* A stream whose second half arrives after the launch. */
static void stream(const char *name, bool tube, long (*call)(), long number, int halves)
{
	pthread_t thread;
	int rest = 1;

	EXPECT((tube ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) == 0);
	begin(&thread, call, number, ends[0]);
	for (int i = 0; i < halves; i++) {
		/* until the first half has been taken */
		for (rest = 1; rest > 0 && !over; usleep(100))
			EXPECT(ioctl(ends[0], FIONREAD, &rest) == 0);
		launch();
		EXPECT(write(ends[1], plain, 2 * PART / halves) == 2 * PART / halves);
	}
	judge(name, end(thread), 2 * PART, (char *)parts[0].iov_base);
	close(ends[0]);
	close(ends[1]);
}

static void letters()
{
	static struct {
		long type;
		char text[2 * PART];
	} l = {1, {}};
	pthread_t thread;

	queue = msgget(IPC_PRIVATE, 0600);
	if (queue < 0) /* the system has none */
		return;
	memset(l.text, 'h', sizeof(l.text));
	begin(&thread, receive_letter, SYS_msgrcv, queue);
	launch();
	if (msgsnd(queue, &l, sizeof(l.text), IPC_NOWAIT) == 0 && msgsnd(queue, &l, 1, 0) == 0)
		judge("msgrcv", end(thread), 2 * PART, (char *)parts[0].iov_base);
	msgctl(queue, IPC_RMID, NULL);
}

/* More than the pipe holds: the call waits for the reader. */
static void full_pipe()
{
	pthread_t thread;
	int tube[2];
	long got, all = 0;

	EXPECT(pipe(tube) == 0);
	ends[0] = tube[1];
	memset(memory, 'h', SIZE);
	tid = over = 0;
	EXPECT(pthread_create(&thread, NULL, run_call, (void *)write_all) == 0);
	await_call(SYS_write, tube[1]);
	launch();
	memset(plain, 0, SIZE);
	while (all < SIZE - 200 && (got = read(tube[0], plain + all, SIZE - all)) > 0)
		all += got;
	judge("write", end(thread), SIZE - 200, plain);
	judge("written", all, SIZE - 200, plain);
}

/* A file that is read in pieces. */
static void large_file()
{
	FILE *file = tmpfile();
	size_t size = (9 << 20) + 5;
	char *large, *bytes = (char *)malloc(size);
	long bad = 0;

	CHECK(cudaMallocManaged(&large, size));
	for (size_t i = 0; i < size; i++)
		bytes[i] = (char)(i * 7 + i / 4096);
	EXPECT(fwrite(bytes, 1, size, file) == size && fflush(file) == 0);
	struct iovec three[] = {{large, 3000001}, {large + 3000001, 5}, {large + 3000006, size}};
	for (int way = 0; way < 4; way++) {
		CHECK(cudaMemset(large, 1, size));
		rewind(file);
		long got = way == 0   ? read(fileno(file), large, size)
			   : way == 1 ? pread(fileno(file), large, size + 4, 0)
			   : way == 2 ? preadv(fileno(file), three, 3, 0)
				      : (long)fread(large, 5, size / 5 + 1, file) * 5;
		bad += got != (way == 3 ? (long)size / 5 * 5 : (long)size) || memcmp(large, bytes, size) != 0;
	}
	printf("a large file: %ld wrong\n", bad);
	wrong += bad;
	CHECK(cudaFree(large));
}

int main()
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	memset(plain, 'h', SIZE);
	CHECK(cudaMallocManaged(&memory, SIZE));
	launch();
	CHECK(cudaDeviceSynchronize());
	parts[0] = {memory + 1000, PART};
	parts[1] = {memory + 1000 + PART, PART};
	message("recv", SOCK_DGRAM, receive, SYS_recvfrom);
	message("recvfrom", SOCK_DGRAM, receive_from, SYS_recvfrom);
	message("recvmsg", SOCK_SEQPACKET, receive_message, SYS_recvmsg);
	message("recvmmsg", SOCK_DGRAM, receive_messages, SYS_recvmmsg);
	stream("recvmsg of a stream", false, receive_message, SYS_recvmsg, 2);
	stream("readv", true, read_parts, SYS_readv, 1);
	stream("fread", true, read_items, SYS_read, 2);
	letters();
	full_pipe();
	large_file();
	printf("%d wrong\n", wrong);
	return wrong != 0;
}
