/*
 * tests/test_apps/closes.c - programs that close descriptors that they did not open: closes WHAT
 * [N]. Then they open their own files and sockets, which may get the same numbers. It says whether
 * those stay as they are, and what CUDA does. For the remote modes alone.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MORE_DRIVER_CALLS(X)                                                                       \
	X(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned int))                                \
	X(cuMemHostAlloc, (void **, size_t, unsigned int))                                         \
	X(cuLaunchHostFunc, (CUstream, CUhostFn, void *))
#include "driver_api.h"

#define MOST 128
#define SIZE (1u << 20)
#define LARGE (32u << 20)
#define OWN 40 /* files, and as many sockets */

static CUcontext ctx;
static CUdeviceptr device;
static CUstream stream;

static void check(const char *what, CUresult err)
{
	if (!err)
		return;
	printf("%s: %d\n", what, (int)err);
	exit(1);
}

/* A copy up and down. */
static CUresult works(void)
{
	static char in[SIZE], out[SIZE];
	CUresult err;

	in[SIZE - 1]++;
	err = cu.cuMemcpyHtoD_v2(device, in, SIZE);
	if (!err)
		err = cu.cuMemcpyDtoH_v2(out, device, SIZE);
	if (!err && memcmp(in, out, SIZE) != 0)
		printf("wrong bytes\n");
	return err;
}

static void begin(void)
{
	CUdevice dev;
	CUdeviceptr managed;
	void *pinned;

	check("cuInit", cu.cuInit(0));
	check("cuDeviceGet", cu.cuDeviceGet(&dev, 0));
	check("cuDevicePrimaryCtxRetain", cu.cuDevicePrimaryCtxRetain(&ctx, dev));
	check("cuCtxSetCurrent", cu.cuCtxSetCurrent(ctx));
	check("cuMemAlloc", cu.cuMemAlloc_v2(&device, SIZE));
	check("cuMemAllocManaged", cu.cuMemAllocManaged(&managed, SIZE, 1));
	check("cuMemHostAlloc", cu.cuMemHostAlloc(&pinned, SIZE, 0));
	check("cuStreamCreate", cu.cuStreamCreate(&stream, 0));
	check("works", works());
}

/* --- whose descriptors are whose */

struct list {
	int fds[MOST];
	size_t n;
};

static struct list ours; /* this program's, once the client has begun */

static void note_ours(int fd)
{
	if (ours.n == MOST)
		abort();
	ours.fds[ours.n++] = fd;
}

static void list_open(struct list *list, const struct list *without)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;

	list->n = 0;
	while (d && (e = readdir(d)) && list->n < MOST) {
		int fd = atoi(e->d_name);
		bool known = e->d_name[0] == '.' || fd == dirfd(d);

		for (size_t i = 0; without && i < without->n; i++)
			known |= without->fds[i] == fd;
		if (!known)
			list->fds[list->n++] = fd;
	}
	closedir(d);
}

/* Make all of the client's numbers the program's own: @take makes the file number @i. A thread of
 * the client may open one meanwhile, so this ends when there is none. */
static void take_all(void (*take)(int at, size_t i))
{
	struct list theirs;
	size_t taken = 0;

	for (list_open(&theirs, &ours); theirs.n > 0; list_open(&theirs, &ours)) {
		for (size_t i = 0; i < theirs.n; i++) {
			take(theirs.fds[i], taken++);
			note_ours(theirs.fds[i]);
		}
	}
}

/* A file or socket of the program: what was written to it, and what its number was. */
struct own {
	int fd, peer; /* the socket's other end; -1: a file */
	struct stat st;
};

static struct own owns[2 * MOST];
static size_t own_count;

static void note_own(int fd, int peer)
{
	struct own *o = &owns[own_count++];

	o->fd = fd;
	o->peer = peer;
	fstat(fd, &o->st);
}

/* Make one with number @at; -1: any. */
static void open_file(int at)
{
	int fd = memfd_create("own", MFD_CLOEXEC);

	if (at >= 0) {
		dup2(fd, at);
		close(fd);
		fd = at;
	}
	if (write(fd, "USERDATA", 8) == 8)
		note_own(fd, -1);
}

static void open_socket(int at)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		abort();
	if (at >= 0) {
		dup2(pair[0], at);
		close(pair[0]);
		pair[0] = at;
		note_ours(pair[1]);
	}
	if (write(pair[1], "USERDATA", 8) == 8) /* unread bytes, for who would read them */
		note_own(pair[0], pair[1]);
}

static bool is_intact(const struct own *o)
{
	struct stat st;
	char bytes[16];

	if (fstat(o->fd, &st) < 0 || st.st_dev != o->st.st_dev || st.st_ino != o->st.st_ino)
		return false;
	if (o->peer < 0)
		return st.st_size == 8;
	return recv(o->fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_PEEK) == 8 &&
	       recv(o->peer, bytes, sizeof(bytes), MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void judge(void)
{
	size_t damaged = 0;

	for (size_t i = 0; i < own_count; i++)
		damaged += !is_intact(&owns[i]);
	printf("damaged: %zu of %zu\n", damaged, own_count);
}

/* --- calls afterwards, also of a thread that waits meanwhile */

static void rest(void *arg)
{
	usleep(*(useconds_t *)arg);
}

static void *wait_for_stream(void *arg)
{
	cu.cuCtxSetCurrent(ctx);
	*(CUresult *)arg = cu.cuStreamSynchronize(stream);
	return NULL;
}

static CUresult waited;

static pthread_t begin_wait(void)
{
	static useconds_t us = 700000;
	pthread_t t;

	check("cuLaunchHostFunc", cu.cuLaunchHostFunc(stream, rest, &us));
	if (pthread_create(&t, NULL, wait_for_stream, &waited) != 0)
		abort();
	usleep(200000);
	return t;
}

static void finish(pthread_t waiting)
{
	CUresult err = works();

	pthread_join(waiting, NULL);
	if (!err) /* it may have been the other thread's lane */
		err = works();
	printf("afterwards: %s\n", err ? "fails" : "works");
	for (int i = 0; i < 3 && err; i++) {
		if (works() == CUDA_SUCCESS)
			printf("and works again\n");
	}
	judge();
}

/* --- what programs do */

static void own_everything(void)
{
	for (int i = 0; i < OWN; i++) {
		open_file(-1);
		open_socket(-1);
	}
}

static void close_in_a_loop(void)
{
	pthread_t t = begin_wait();
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	for (int fd = 3; fd < (int)limit.rlim_cur; fd++)
		close(fd);
	own_everything();
	finish(t);
}

static void close_a_range(void)
{
	pthread_t t = begin_wait();

	syscall(SYS_close_range, 3u, ~0u, 0u);
	own_everything();
	finish(t);
}

/* Files and sockets in turn. */
static void take_number(int at, size_t i)
{
	if (i % 2)
		open_socket(at);
	else
		open_file(at);
}

static void take_all_numbers(void)
{
	pthread_t t = begin_wait();

	take_all(take_number);
	finish(t);
}

/* The same when the client has had nothing to do for a while, and its threads sleep. No thread of
 * the program waits, whose lane might go on: already the first call fails. */
static void take_all_numbers_when_idle(void)
{
	usleep(200000);
	take_all(take_number);
	printf("afterwards: %s\n", works() ? "fails" : "works");
	judge();
}

/* The same with anonymous files, which all have one inode. */
static void take_number_for_event(int at, size_t i)
{
	int fd = i % 2 ? eventfd(0, EFD_NONBLOCK) : epoll_create1(0);

	dup2(fd, at);
	close(fd);
}

static void take_all_numbers_for_events(void)
{
	size_t first = ours.n, damaged = 0;
	eventfd_t value = 0;

	take_all(take_number_for_event);
	printf("afterwards: %s\n", works() ? "fails" : "works");
	usleep(3000000); /* longer than any thread of the client sleeps */
	for (size_t i = 0; first + i < ours.n; i++) {
		struct epoll_event event;
		int fd = ours.fds[first + i];

		if (i % 2)
			damaged += eventfd_read(fd, &value) == 0 || errno != EAGAIN;
		else
			damaged += epoll_wait(fd, &event, 1, 0) != 0;
	}
	printf("damaged: %zu\n", damaged);
}

/* --- the same while a call waits for the server's process, whose number is read from stdin */

static bool has_open(const char *name)
{
	char path[64], to[256];
	bool has = false;

	for (int fd = 3; fd < 1024 && !has; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = '\0';
		has = strstr(to, name) != NULL;
	}
	return has;
}

static int server;

/* Take all numbers when @call, of a new thread, has stopped the server, and the client has file
 * @name open. */
static void take_numbers_during(void *(*call)(void *), const char *name)
{
	pthread_t t;

	printf("ready\n");
	fflush(stdout);
	if (scanf("%d", &server) != 1 || pthread_create(&t, NULL, call, &waited) != 0)
		abort();
	while (!has_open(name))
		usleep(10000);
	take_all(take_number);
	kill(server, SIGCONT);
	finish(t);
}

static void *query(void *arg)
{
	cu.cuCtxSetCurrent(ctx);
	kill(server, SIGSTOP);
	*(CUresult *)arg = cu.cuStreamQuery(stream);
	return NULL;
}

/* The thread's first call: it needs a connection of its own, and sends a file. */
static void take_numbers_during_query(void)
{
	take_numbers_during(query, "cricket-rings");
}

static CUdeviceptr large;

static void *upload(void *arg)
{
	void *bytes = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cu.cuCtxSetCurrent(ctx);
	check("cuMemcpyDtoH", cu.cuMemcpyDtoH_v2(bytes, large, 1)); /* it has a connection */
	kill(server, SIGSTOP);
	*(CUresult *)arg = cu.cuMemcpyHtoD_v2(large, bytes, LARGE);
	return NULL;
}

static void take_numbers_during_upload(void)
{
	check("cuMemAlloc", cu.cuMemAlloc_v2(&large, LARGE));
	take_numbers_during(upload, "/cricket/chunks");
}

/* A child gives up its copies of the connections; by now the numbers are the program's. */
static void fork_afterwards(void)
{
	struct list theirs;
	int status = 0;

	list_open(&theirs, &ours);
	for (size_t i = 0; i < theirs.n; i++)
		open_file(theirs.fds[i]);
	if (fork() == 0) {
		judge();
		fflush(stdout);
		_exit(0);
	}
	wait(&status);
	judge();
}

/* The client's descriptor number @which alone, as a mistake closes it: nothing else may happen. */
static void close_one(size_t which, bool replace)
{
	struct list theirs;

	list_open(&theirs, &ours);
	if (which >= theirs.n) {
		printf("no more\n");
		return;
	}
	if (replace)
		open_file(theirs.fds[which]);
	else
		close(theirs.fds[which]);
	for (int i = 0; i < 3; i++)
		check("works", works());
	judge();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *what;
		void (*run)(void);
	} table[] = {
		{"loop", close_in_a_loop},
		{"range", close_a_range},
		{"taken", take_all_numbers},
		{"idle", take_all_numbers_when_idle},
		{"events", take_all_numbers_for_events},
		{"child", fork_afterwards},
		{"query", take_numbers_during_query},
		{"upload", take_numbers_during_upload},
	};

	const struct rlimit limit = {1024, 1024};

	setrlimit(RLIMIT_NOFILE, &limit); /* as on most machines */
	if (driver_open() < 0 || argc < 2)
		return 2;
	list_open(&ours, NULL);
	begin();
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (strcmp(table[i].what, argv[1]) == 0)
			table[i].run();
	}
	if (argc > 2)
		close_one((size_t)atoi(argv[2]), strcmp(argv[1], "replaced") == 0);
	return 0;
}
