/*
 * managed_parts.cu - managed memory that the device uses in part while a thread waits in a system
 * call for bytes to put into it: the call moves as much as on a native GPU.
 */
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

#define PAGE 4096
#define PAGES 4

struct transfer {
	int fd;
	char *to;
	volatile pid_t thread;
	ssize_t moved;
};

static void *receive(void *p)
{
	struct transfer *t = (struct transfer *)p;

	t->thread = (pid_t)syscall(SYS_gettid);
	t->moved = read(t->fd, t->to, PAGES * PAGE);
	return NULL;
}

/* Wait until the thread sleeps in read(2) of its descriptor. */
static void await_sleep(const struct transfer *t)
{
	char path[64], line[64], wanted[64];

	while (!t->thread)
		usleep(100);
	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)t->thread);
	snprintf(wanted, sizeof(wanted), "%d 0x%x ", SYS_read, t->fd);
	do {
		FILE *f = fopen(path, "r");

		EXPECT(f != NULL);
		if (!fgets(line, sizeof(line), f))
			line[0] = 0;
		fclose(f);
		usleep(100);
	} while (strncmp(line, wanted, strlen(wanted)) != 0);
}

static void run(const char *name, int from, int to, unsigned int attach)
{
	static char sent[PAGES * PAGE];
	struct transfer t = {};
	pthread_t thread;
	int wrong = 0;

	t.fd = from;
	CHECK(cudaMallocManaged(&t.to, PAGES * PAGE, attach));
	memset(t.to, 1, PAGES * PAGE);
	for (int i = 0; i < PAGES * PAGE; i++)
		sent[i] = (char)(i / 100);
	EXPECT(pthread_create(&thread, NULL, receive, &t) == 0);
	await_sleep(&t);
	CHECK(cudaMemset(t.to + 2 * PAGE, 2, PAGE));
	CHECK(cudaDeviceSynchronize());
	EXPECT(write(to, sent, sizeof(sent)) == sizeof(sent));
	pthread_join(thread, NULL);
	for (int i = 0; i < PAGES * PAGE; i++)
		wrong += t.to[i] != sent[i];
	printf("%s: %d of %d bytes, %d wrong\n", name, (int)t.moved, PAGES * PAGE, wrong);
	CHECK(cudaFree(t.to));
	close(from);
	close(to);
}

int main()
{
	int ends[2];

	EXPECT(pipe(ends) == 0);
	run("pipe", ends[0], ends[1], cudaMemAttachGlobal);
	EXPECT(pipe(ends) == 0);
	run("pipe, made for the host", ends[0], ends[1], cudaMemAttachHost);
	EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	run("socket", ends[0], ends[1], cudaMemAttachHost);
	return 0;
}
