/*
 * tests/e2e/far.c - a long network: far MS MBITS PORT COMMAND... -- COMMAND...
 *
 * Makes two network namespaces, and carries the packets between them: each direction takes MS / 2
 * milliseconds and at most MBITS Mbit/s (0: no limit). The first command runs at 10.77.0.2, a
 * server. When it accepts connections at PORT, the second one runs at 10.77.0.1. The kernel's own
 * TCP runs at both ends, with its windows and buffers.
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
#define QUEUE_MOST_NS 200000000 /* packets that would wait longer for their turn are dropped */
#define TRIES 1000		/* of connecting to the server, 10 ms apart */
#define UNABLE 77

struct packet {
	struct packet *next;
	uint64_t due;
	size_t size;
	char bytes[];
};

/* One direction. */
struct way {
	int from, to;
	uint64_t delay_ns, bits_per_s; /* 0: no limit */
	uint64_t free_at;	       /* when the wire has sent what was queued */
	struct packet *first, **last;
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

/* Queue one packet; false: there is none. */
static int take_packet(struct way *w)
{
	char bytes[PACKET_MAX];
	ssize_t n = read(w->from, bytes, sizeof(bytes));
	uint64_t now = now_ns();
	struct packet *p;

	if (n <= 0)
		return 0;
	if (w->free_at < now)
		w->free_at = now;
	if (w->free_at - now > QUEUE_MOST_NS)
		return 1;
	p = malloc(sizeof(*p) + (size_t)n);
	if (!p)
		return 1;
	if (w->bits_per_s)
		w->free_at += (uint64_t)n * 8 * 1000000000 / w->bits_per_s;
	p->next = NULL;
	p->due = w->free_at + w->delay_ns;
	p->size = (size_t)n;
	memcpy(p->bytes, bytes, p->size);
	*w->last = p;
	w->last = &p->next;
	return 1;
}

static void deliver_due(struct way *w)
{
	struct packet *p;

	while ((p = w->first) && p->due <= now_ns()) {
		if (write(w->to, p->bytes, p->size) < 0 && errno != EAGAIN && errno != EIO)
			give_up("a packet", 1);
		w->first = p->next;
		if (!w->first)
			w->last = &w->first;
		free(p);
	}
}

static void *carry(void *data)
{
	struct way *w = data;
	struct pollfd waits = {.fd = w->from, .events = POLLIN};

	w->last = &w->first;
	for (;;) {
		struct timespec left = {0};
		uint64_t now = now_ns();

		if (w->first && w->first->due > now)
			left = (struct timespec){(time_t)((w->first->due - now) / 1000000000),
						 (long)((w->first->due - now) % 1000000000)};
		ppoll(&waits, 1, w->first ? &left : NULL, NULL);
		for (int n = 0; n < 64 && take_packet(w); n++)
			;
		deliver_due(w);
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

static void start_ways(int server, int client, const char *ms, const char *mbits)
{
	static struct way ways[2];

	for (int i = 0; i < 2; i++) {
		pthread_t thread;

		ways[i].from = i ? server : client;
		ways[i].to = i ? client : server;
		ways[i].delay_ns = strtoull(ms, NULL, 10) * 1000000 / 2;
		ways[i].bits_per_s = strtoull(mbits, NULL, 10) * 1000000;
		if (pthread_create(&thread, NULL, carry, &ways[i]))
			give_up("no thread", 1);
	}
}

int main(int argc, char **argv)
{
	char **second = argv + 4;
	int server_tun, client_tun, status;
	pid_t server, client;

	while (second < argv + argc && strcmp(*second, "--") != 0)
		second++;
	if (argc < 7 || second >= argv + argc - 1) {
		fprintf(stderr, "far MS MBITS PORT COMMAND... -- COMMAND...\n");
		return 2;
	}
	*second++ = NULL;
	become_root();
	server_tun = enter_network(SERVER);
	server = run_command(argv + 4);
	client_tun = enter_network(CLIENT);
	start_ways(server_tun, client_tun, argv[1], argv[2]);
	await_server(atoi(argv[3]));
	client = run_command(second);
	waitpid(client, &status, 0);
	kill(server, SIGTERM);
	waitpid(server, NULL, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
