/*
 * tests/e2e/far.c - a long network: far MS MBITS EACH PORT COMMAND... -- COMMAND...
 *
 * Makes two network namespaces, and carries the packets between them: each direction takes MS / 2
 * milliseconds, and carries at most MBITS Mbit/s, and EACH Mbit/s of one connection (0: no limit).
 * So with EACH alone, twice as many connections are twice as fast. The first command runs at
 * 10.77.0.2, a server. When it accepts connections at PORT, the second one runs at 10.77.0.1. The
 * kernel's own TCP runs at both ends, with its windows and buffers.
 *
 * The status is that of the second command; then the first one gets SIGTERM. 77: this user cannot
 * make such namespaces. 2: wrong use.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CLIENT "10.77.0.1"
#define SERVER "10.77.0.2"
#define PACKET_MAX 9000
#define TRIES 1000 /* of connecting to the server, 10 ms apart */
#define UNABLE 77
#define FLOWS 1024  /* more share the last one */
#define PORTS_AT 20 /* in a packet: after a head of IPv4 without options */

struct packet {
	struct packet *next;
	uint64_t due;
	size_t size;
	char bytes[];
};

/* A rate of bytes on the wire. */
struct wire {
	uint64_t bits_per_s; /* 0: no limit */
	uint64_t free_at;    /* when it has sent what was queued */
};

/* The packets of one connection in one direction. */
struct flow {
	uint16_t port; /* the client's */
	struct wire wire;
	struct packet *first, *last;
};

/* One direction. */
struct way {
	int from, to;
	uint16_t server_port;
	uint64_t delay_ns, each_bits_per_s;
	struct wire wire; /* of all connections */
	struct flow flows[FLOWS];
	unsigned int count;
};

static void give_up(const char *what, int status)
{
	fprintf(stderr, "far: %s: %s\n", what, strerror(errno));
	exit(status);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		give_up(path, UNABLE);
	close(fd);
}

/* An ordinary user is root in a namespace of users. */
static void become_root(void)
{
	unsigned int uid = geteuid(), gid = getegid();
	char map[64];

	if (uid == 0)
		return;
	if (unshare(CLONE_NEWUSER) < 0)
		give_up("no namespace of users", UNABLE);
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	write_file("/proc/self/gid_map", map);
}

static void set_interface(int s, unsigned long request, struct ifreq *ifr, const char *name)
{
	snprintf(ifr->ifr_name, sizeof(ifr->ifr_name), "%s", name);
	if (ioctl(s, request, ifr) < 0)
		give_up(name, UNABLE);
}

static void set_up(int s, const char *name)
{
	struct ifreq ifr = {.ifr_flags = IFF_UP | IFF_RUNNING};

	set_interface(s, SIOCSIFFLAGS, &ifr, name);
}

static struct sockaddr_in address_of(const char *host, int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	inet_pton(AF_INET, host, &a.sin_addr);
	return a;
}

/* Enter a new network whose only way out is the returned descriptor. */
static int enter_network(const char *host)
{
	struct sockaddr_in address = address_of(host, 0), mask = address_of("255.255.255.0", 0);
	struct ifreq ifr = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	int tun, s;

	if (unshare(CLONE_NEWNET) < 0)
		give_up("no network namespace", UNABLE);
	tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (tun < 0 || s < 0)
		give_up("/dev/net/tun", UNABLE);
	set_interface(tun, TUNSETIFF, &ifr, "far");
	ifr.ifr_mtu = PACKET_MAX;
	set_interface(s, SIOCSIFMTU, &ifr, "far");
	ifr.ifr_qlen = 100000;
	set_interface(s, SIOCSIFTXQLEN, &ifr, "far");
	memcpy(&ifr.ifr_addr, &address, sizeof(address));
	set_interface(s, SIOCSIFADDR, &ifr, "far");
	memcpy(&ifr.ifr_netmask, &mask, sizeof(mask));
	set_interface(s, SIOCSIFNETMASK, &ifr, "far");
	set_up(s, "far");
	set_up(s, "lo");
	close(s);
	return tun;
}

static struct flow *find_flow(struct way *w, const char *bytes, size_t size)
{
	uint16_t ports[2] = {0}, port;
	unsigned int i = 0;

	if (size >= PORTS_AT + sizeof(ports))
		memcpy(ports, bytes + PORTS_AT, sizeof(ports));
	port = ntohs(ports[ntohs(ports[0]) == w->server_port]);
	while (i < w->count && w->flows[i].port != port)
		i++;
	if (i == FLOWS)
		return &w->flows[FLOWS - 1];
	if (i == w->count)
		w->flows[w->count++] =
			(struct flow){.port = port, .wire.bits_per_s = w->each_bits_per_s};
	return &w->flows[i];
}

/* When a packet of @size bytes, which comes at @from, has left the wire. */
static uint64_t send_on(struct wire *w, uint64_t from, size_t size)
{
	if (w->bits_per_s == 0)
		return from;
	if (w->free_at < from)
		w->free_at = from;
	w->free_at += size * 8 * 1000000000 / w->bits_per_s;
	return w->free_at;
}

/* Queue one packet; false: there is none. None is dropped: else the rate of a connection would
 * depend on how its sender recovers. */
static int take_packet(struct way *w)
{
	char bytes[PACKET_MAX];
	ssize_t n = read(w->from, bytes, sizeof(bytes));
	uint64_t now = now_ns();
	struct packet *p;
	struct flow *f;

	if (n <= 0)
		return 0;
	p = malloc(sizeof(*p) + (size_t)n);
	if (!p)
		return 1;
	f = find_flow(w, bytes, (size_t)n);
	p->next = NULL;
	p->due = send_on(&w->wire, send_on(&f->wire, now, (size_t)n), (size_t)n) + w->delay_ns;
	p->size = (size_t)n;
	memcpy(p->bytes, bytes, p->size);
	if (f->first)
		f->last->next = p;
	else
		f->first = p;
	f->last = p;
	return 1;
}

static void deliver_due(struct way *w, struct flow *f)
{
	struct packet *p;

	while ((p = f->first) && p->due <= now_ns()) {
		if (write(w->to, p->bytes, p->size) < 0 && errno != EAGAIN && errno != EIO)
			give_up("a packet", 1);
		f->first = p->next;
		free(p);
	}
}

/* When the next packet is due; 0: there is none. */
static uint64_t find_due(const struct way *w)
{
	uint64_t due = 0;

	for (unsigned int i = 0; i < w->count; i++) {
		const struct packet *p = w->flows[i].first;

		if (p && (due == 0 || p->due < due))
			due = p->due;
	}
	return due;
}

static void *carry(void *data)
{
	struct way *w = data;
	struct pollfd waits = {.fd = w->from, .events = POLLIN};

	for (;;) {
		uint64_t due = find_due(w), now = now_ns();
		uint64_t ns = due > now ? due - now : 0;
		struct timespec left = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

		ppoll(&waits, 1, due ? &left : NULL, NULL);
		for (int n = 0; n < 64 && take_packet(w); n++)
			;
		for (unsigned int i = 0; i < w->count; i++)
			deliver_due(w, &w->flows[i]);
	}
	return NULL;
}

static pid_t run_command(char **command)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		execvp(command[0], command);
		give_up(command[0], 2);
	}
	if (pid < 0)
		give_up("fork", 1);
	return pid;
}

static void await_server(int port)
{
	struct sockaddr_in a = address_of(SERVER, port);
	const struct timespec pause = {.tv_nsec = 10000000};

	for (int i = 0; i < TRIES; i++) {
		int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		int ret = connect(s, (struct sockaddr *)&a, sizeof(a));

		close(s);
		if (ret == 0)
			return;
		nanosleep(&pause, NULL);
	}
	give_up("the server does not accept connections", 1);
}

static uint64_t bits_of(const char *mbits)
{
	return strtoull(mbits, NULL, 10) * 1000000;
}

/* @words: MS MBITS EACH PORT */
static void start_ways(int server, int client, char **words)
{
	static struct way ways[2];

	for (int i = 0; i < 2; i++) {
		pthread_t thread;

		ways[i].from = i ? server : client;
		ways[i].to = i ? client : server;
		ways[i].delay_ns = strtoull(words[0], NULL, 10) * 1000000 / 2;
		ways[i].wire.bits_per_s = bits_of(words[1]);
		ways[i].each_bits_per_s = bits_of(words[2]);
		ways[i].server_port = (uint16_t)atoi(words[3]);
		if (pthread_create(&thread, NULL, carry, &ways[i]))
			give_up("no thread", 1);
	}
}

int main(int argc, char **argv)
{
	char **first = argv + 5, **second = first;
	int server_tun, client_tun, status;
	pid_t server, client;

	while (second < argv + argc && strcmp(*second, "--") != 0)
		second++;
	if (argc < 8 || second >= argv + argc - 1) {
		fprintf(stderr, "far MS MBITS EACH PORT COMMAND... -- COMMAND...\n");
		return 2;
	}
	*second++ = NULL;
	become_root();
	server_tun = enter_network(SERVER);
	server = run_command(first);
	client_tun = enter_network(CLIENT);
	start_ways(server_tun, client_tun, argv + 1);
	await_server(atoi(argv[4]));
	client = run_command(second);
	waitpid(client, &status, 0);
	kill(server, SIGTERM);
	waitpid(server, NULL, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
