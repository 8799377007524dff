/*
 * command/exporter/http_clients.c - see http_clients.h.
 *
 * libmicrohttpd limits only the time without a byte, and the connections of a whole address. A
 * thread looks at all connections a few times a second; shutdown(2) ends one, and the daemon closes
 * it.
 */
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "command/exporter/http_clients.h"
#include "util/address/sockaddr.h"
#include "util/until.h"
#include "util/wait.h"

#define TICK_MS 250
#define NETWORK 8 /* bytes of an IPv6 address that identify its network */

struct host {
	sa_family_t family; /* AF_UNIX: not limited */
	unsigned char bytes[16];
};

struct guest {
	struct MHD_Connection *connection; /* NULL: free */
	int fd;
	struct host host;
	int64_t since;	/* the begin of its request, in ms */
	int64_t paused; /* until then; 0: it is not */
	bool given_up;
};

struct ckx_http_clients {
	pthread_mutex_t lock;
	struct ck_cond changed;
	pthread_t thread;
	bool ends;
	struct guest list[CKX_HTTP_CLIENTS_MOST];
};

static struct host host_of(struct sockaddr_storage *address)
{
	struct host host = {.family = address->ss_family};
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
	bool whole;

	ck_sockaddr_unmap(address);
	host.family = address->ss_family;
	if (host.family == AF_INET) {
		memcpy(host.bytes, &((const struct sockaddr_in *)address)->sin_addr, 4);
	} else if (host.family == AF_INET6) {
		whole = IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) ||
			IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
		memcpy(host.bytes, &v6->sin6_addr, whole ? sizeof(host.bytes) : NETWORK);
	}
	return host;
}

static struct guest *find(struct ckx_http_clients *g, const struct MHD_Connection *connection)
{
	for (size_t i = 0; i < CKX_HTTP_CLIENTS_MOST; i++) {
		if (g->list[i].connection == connection)
			return &g->list[i];
	}
	return NULL;
}

static void give_up(struct guest *guest)
{
	guest->given_up = true;
	shutdown(guest->fd, SHUT_RDWR);
}

bool ckx_http_clients_admit(struct ckx_http_clients *g, const struct sockaddr *address,
			    socklen_t size)
{
	struct sockaddr_storage from = {.ss_family = AF_UNIX};
	struct guest *oldest = NULL;
	size_t all = 0, same = 0;
	struct host host;

	if (address && size <= sizeof(from))
		memcpy(&from, address, size);
	host = host_of(&from);
	pthread_mutex_lock(&g->lock);
	for (size_t i = 0; i < CKX_HTTP_CLIENTS_MOST; i++) {
		struct guest *one = &g->list[i];

		if (!one->connection || one->given_up)
			continue;
		all++;
		same += host.family != AF_UNIX && memcmp(&one->host, &host, sizeof(host)) == 0;
		if (!oldest || one->since < oldest->since)
			oldest = one;
	}
	if (same < CKX_HTTP_CLIENTS_OF_ONE && all >= CKX_GUESTS)
		give_up(oldest);
	pthread_mutex_unlock(&g->lock);
	return same < CKX_HTTP_CLIENTS_OF_ONE;
}

void ckx_http_clients_begin(struct ckx_http_clients *g, struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *fd =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct sockaddr_storage from;
	struct guest *guest;

	if (!fd)
		return;
	ck_sockaddr_peer(fd->connect_fd, &from);
	pthread_mutex_lock(&g->lock);
	guest = find(g, NULL);
	if (guest)
		*guest = (struct guest){.connection = connection,
					.fd = fd->connect_fd,
					.host = host_of(&from),
					.since = ck_now_ms()};
	pthread_mutex_unlock(&g->lock);
}

void ckx_http_clients_next(struct ckx_http_clients *g, struct MHD_Connection *connection)
{
	struct guest *guest;

	pthread_mutex_lock(&g->lock);
	guest = find(g, connection);
	if (guest)
		guest->since = ck_now_ms();
	pthread_mutex_unlock(&g->lock);
}

void ckx_http_clients_end(struct ckx_http_clients *g, struct MHD_Connection *connection)
{
	struct guest *guest;

	pthread_mutex_lock(&g->lock);
	guest = find(g, connection);
	if (guest)
		*guest = (struct guest){.fd = -1};
	pthread_mutex_unlock(&g->lock);
}

bool ckx_http_clients_pause(struct ckx_http_clients *g, struct MHD_Connection *connection)
{
	struct guest *guest;
	bool pauses;

	pthread_mutex_lock(&g->lock);
	guest = find(g, connection);
	pauses = guest && !g->ends;
	if (pauses) {
		guest->paused = ck_now_ms() + CKX_GUEST_PAUSE_MS;
		MHD_suspend_connection(connection);
	}
	pthread_mutex_unlock(&g->lock);
	return pauses;
}

/* Give up old requests, and find the connections whose pause is over, or, with @all, all that
 * pause. Called with the lock. */
static size_t look(struct ckx_http_clients *g, bool all,
		   struct MHD_Connection *over[CKX_HTTP_CLIENTS_MOST])
{
	int64_t now = ck_now_ms();
	size_t count = 0;

	for (size_t i = 0; i < CKX_HTTP_CLIENTS_MOST; i++) {
		struct guest *one = &g->list[i];

		if (!one->connection)
			continue;
		if (!one->given_up && now - one->since > CKX_GUEST_REQUEST_S * 1000)
			give_up(one);
		if (one->paused && (all || one->paused <= now)) {
			one->paused = 0;
			over[count++] = one->connection;
		}
	}
	return count;
}

/* Without the lock: the daemon's thread may wait for it. They stay until they are resumed. */
static void resume(struct MHD_Connection *const list[], size_t count)
{
	for (size_t i = 0; i < count; i++)
		MHD_resume_connection(list[i]);
}

static void *watch(void *guests)
{
	struct ckx_http_clients *g = guests;
	struct MHD_Connection *over[CKX_HTTP_CLIENTS_MOST];

	pthread_mutex_lock(&g->lock);
	while (!g->ends) {
		struct timespec until = ck_until(TICK_MS * CK_NS_PER_MS);
		size_t count;

		ck_cond_timedwait_with(&g->changed, &g->lock, &until);
		count = look(g, false, over);
		pthread_mutex_unlock(&g->lock);
		resume(over, count);
		pthread_mutex_lock(&g->lock);
	}
	pthread_mutex_unlock(&g->lock);
	return NULL;
}

struct ckx_http_clients *ckx_http_clients_create(void)
{
	struct ckx_http_clients *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	pthread_mutex_init(&g->lock, NULL);
	if (pthread_create(&g->thread, NULL, watch, g) == 0)
		return g;
	free(g);
	return NULL;
}

void ckx_http_clients_resume(struct ckx_http_clients *g)
{
	struct MHD_Connection *over[CKX_HTTP_CLIENTS_MOST];
	size_t count;

	pthread_mutex_lock(&g->lock);
	g->ends = true;
	ck_cond_signal(&g->changed);
	count = look(g, true, over);
	pthread_mutex_unlock(&g->lock);
	resume(over, count);
	pthread_join(g->thread, NULL);
}

void ckx_http_clients_destroy(struct ckx_http_clients *g)
{
	pthread_mutex_destroy(&g->lock);
	free(g);
}
