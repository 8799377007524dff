/*
 * bench/wire.c - what plain sockets carry: the yardstick for copies over the network.
 *
 *   bench-wire serve PORT                      reads, or writes, what a client wants
 *   bench-wire run HOST PORT CONNECTIONS MIB ROUNDS
 *                                              JSON: GB/s there ("up") and back ("down") of ROUNDS
 *                                              transfers of MIB, split over the connections; from
 *                                              and to one buffer a connection again and again, and
 *                                              ("up_memory", "down_memory") memory as large as the
 *                                              transfer, as a copy's is
 *   bench-wire ask HOST PORT ROUNDS JSON: us from a request to the end of a reply of 4 B,
 *                                              64 KiB and 1 MiB; both ends spin, as Cricket's do
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BUFFER (4 << 20) /* as much as one of the connections of a copy asks of the kernel */
#define MOST 64
#define ROUNDS_MAX 100
#define SPINS 20000 /* looks for a request before the server sleeps */

/* What a client asks for: that many bytes, there or back. An acknowledging byte ends it. */
struct wish {
	uint64_t bytes;
	uint64_t back;
};

struct connection {
	int fd;
	struct wish wish;
	char *buffer;
	int step;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void set_options(int fd)
{
	int on = 1, size = BUFFER;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		return; /* then the kernel tunes them */
}

/* @step: by how much to go on in @buf for each byte: 0 or 1. */
static int read_all(int fd, char *buf, uint64_t size, int step)
{
	while (size > 0) {
		ssize_t n = recv(fd, buf, size < BUFFER ? size : BUFFER, MSG_WAITALL);

		if (n <= 0)
			return -1;
		size -= (uint64_t)n;
		buf += n * step;
	}
	return 0;
}

/* The same without sleep. */
static int spin_all(int fd, char *buf, uint64_t size)
{
	while (size > 0) {
		ssize_t n = recv(fd, buf, size, MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN))
			return -1;
		if (n > 0) {
			size -= (uint64_t)n;
			buf += n;
		}
	}
	return 0;
}

/* Spin until something has come, but not for long. */
static void spin_briefly(int fd)
{
	char byte;

	for (int i = 0; i < SPINS && recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0; i++)
		;
}

static int write_all(int fd, const char *buf, uint64_t size, int step)
{
	while (size > 0) {
		ssize_t n = send(fd, buf, size < BUFFER ? size : BUFFER, MSG_NOSIGNAL);

		if (n <= 0)
			return -1;
		size -= (uint64_t)n;
		buf += n * step;
	}
	return 0;
}

static void *serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char *buf = malloc(BUFFER);
	struct wish wish;

	for (;;) {
		spin_briefly(fd);
		if (!buf || read_all(fd, (char *)&wish, sizeof(wish), 0) < 0)
			break;
		if (wish.back ? write_all(fd, buf, wish.bytes, 0)
			      : read_all(fd, buf, wish.bytes, 0))
			break;
		if (!wish.back && write_all(fd, "k", 1, 0))
			break;
	}
	free(buf);
	close(fd);
	return NULL;
}

static _Noreturn void serve(int port)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	pthread_t thread;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	set_options(listener);
	if (bind(listener, (struct sockaddr *)&any, sizeof(any)) < 0 || listen(listener, MOST) < 0)
		die("listen");
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			die("accept");
		set_options(fd);
		if (pthread_create(&thread, NULL, serve_one, (void *)(intptr_t)fd))
			die("thread");
		pthread_detach(thread);
	}
}

static void *transfer(void *arg)
{
	struct connection *c = arg;
	char byte;

	if (write_all(c->fd, (char *)&c->wish, sizeof(c->wish), 0) ||
	    (c->wish.back ? read_all(c->fd, c->buffer, c->wish.bytes, c->step)
			  : write_all(c->fd, c->buffer, c->wish.bytes, c->step)) ||
	    (!c->wish.back && read_all(c->fd, &byte, 1, 0)))
		die("transfer");
	return NULL;
}

static int dial(const char *host, const char *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
	int fd;

	if (getaddrinfo(host, port, &hints, &list))
		die(host);
	fd = socket(list->ai_family, SOCK_STREAM, 0);
	set_options(fd);
	if (connect(fd, list->ai_addr, list->ai_addrlen) < 0)
		die(host);
	freeaddrinfo(list);
	return fd;
}

static char *buffer(uint64_t size)
{
	char *p = malloc(size);

	if (!p)
		die("buffer");
	return memset(p, 1, size);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double rate(struct connection *c, int n, uint64_t bytes, int rounds, int back)
{
	struct timespec begin, end;
	double each[ROUNDS_MAX];
	pthread_t thread[MOST];

	for (int r = -1; r < rounds; r++) {
		clock_gettime(CLOCK_MONOTONIC, &begin);
		for (int i = 0; i < n; i++) {
			c[i].wish = (struct wish){bytes / (uint64_t)n, (uint64_t)back};
			if (pthread_create(&thread[i], NULL, transfer, &c[i]))
				die("thread");
		}
		for (int i = 0; i < n; i++)
			pthread_join(thread[i], NULL);
		clock_gettime(CLOCK_MONOTONIC, &end);
		if (r >= 0)
			each[r] = (double)(end.tv_sec - begin.tv_sec) +
				  (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	}
	qsort(each, (size_t)rounds, sizeof(*each), by_value);
	return (double)bytes / each[rounds / 2] / 1e9;
}

static double reply_us(struct connection *c, uint64_t size, int rounds)
{
	struct timespec begin, end;
	double each[ROUNDS_MAX];

	c->wish = (struct wish){size, 1};
	for (int r = -10; r < rounds; r++) {
		clock_gettime(CLOCK_MONOTONIC, &begin);
		if (write_all(c->fd, (char *)&c->wish, sizeof(c->wish), 0) ||
		    spin_all(c->fd, c->buffer, size))
			die("reply");
		clock_gettime(CLOCK_MONOTONIC, &end);
		if (r >= 0)
			each[r] = (double)(end.tv_sec - begin.tv_sec) * 1e6 +
				  (double)(end.tv_nsec - begin.tv_nsec) / 1e3;
	}
	qsort(each, (size_t)rounds, sizeof(*each), by_value);
	return each[rounds / 2];
}

static int ask(const char *host, const char *port, int rounds)
{
	struct connection c = {.fd = dial(host, port), .buffer = buffer(BUFFER)};

	printf("{\"reply_4B\": %.2f, ", reply_us(&c, 4, rounds));
	printf("\"reply_64K\": %.2f, ", reply_us(&c, 64 << 10, rounds));
	printf("\"reply_1M\": %.2f}\n", reply_us(&c, 1 << 20, rounds));
	return 0;
}

int main(int argc, char **argv)
{
	struct connection c[MOST];
	int n, rounds;
	uint64_t bytes;

	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		serve(atoi(argv[2]));
	if (argc == 5 && strcmp(argv[1], "ask") == 0 && (rounds = atoi(argv[4])) > 0 &&
	    rounds <= ROUNDS_MAX)
		return ask(argv[2], argv[3], rounds);
	if (argc != 7 || strcmp(argv[1], "run") != 0 || (n = atoi(argv[4])) < 1 || n > MOST ||
	    (rounds = atoi(argv[6])) < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: see the head of bench/wire.c\n");
		return 2;
	}
	bytes = (uint64_t)atoi(argv[5]) << 20;
	for (int i = 0; i < n; i++)
		c[i] = (struct connection){.fd = dial(argv[2], argv[3]), .buffer = buffer(BUFFER)};
	printf("{\"up\": %.3f, ", rate(c, n, bytes, rounds, 0));
	printf("\"down\": %.3f, ", rate(c, n, bytes, rounds, 1));
	for (int i = 0; i < n; i++) {
		c[i].buffer = buffer(bytes / (uint64_t)n + BUFFER);
		c[i].step = 1;
	}
	printf("\"up_memory\": %.3f, ", rate(c, n, bytes, rounds, 0));
	printf("\"down_memory\": %.3f}\n", rate(c, n, bytes, rounds, 1));
	return 0;
}
