/*
 * server/direct/dial.c - connect to another server's worker, as the client says and the server's
 * owner allows.
 *
 * A client must not reach through this host what it cannot reach itself. So there are no names,
 * which other machines resolve; only allowed addresses; nothing is sent but TLS, or a greeting that
 * no other service takes for its own; and the client learns of success or failure, not why.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cricket.h"
#include "rpc/chan.h"
#include "rpc/record.h"
#include "rpc/tls.h"
#include "server/direct/allowed_peers.h"
#include "server/direct/bridge.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define DIAL_MS 3000	/* to one address */
#define ALL_MS 7000	/* to all; the tickets are valid for a little longer */
#define ADDRESSES_MAX 8 /* that are tried */
#define ADDRESS_SIZE 80 /* as text */
#define GREETING_SIZE 256
#define MARK 4

static void print_address(const struct sockaddr_storage *peer, char text[ADDRESS_SIZE])
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)peer;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)peer;
	char host[INET6_ADDRSTRLEN] = "";

	if (peer->ss_family == AF_INET) {
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		snprintf(text, ADDRESS_SIZE, "%s:%u", host, ntohs(v4->sin_port));
	} else {
		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
		snprintf(text, ADDRESS_SIZE, "[%s]:%u", host, ntohs(v6->sin6_port));
	}
}

static int send_greeting(struct ck_chan *chan, const struct cks_dial *dial, unsigned int at)
{
	unsigned char bytes[GREETING_SIZE];
	ck_direct_args args;
	struct iovec iov = {.iov_base = bytes};
	long n;

	memcpy(args.session, dial->session, sizeof(args.session));
	memcpy(args.ticket, dial->tickets + (size_t)at * CK_TICKET, sizeof(args.ticket));
	n = ck_call_encode(bytes, sizeof(bytes), 1, CK_DIRECT, (xdrproc_t)xdr_ck_direct_args, &args,
			   0);
	if (n < 0)
		return (int)n;
	iov.iov_len = (size_t)n;
	return ck_chan_writev(chan, &iov, 1);
}

/* Read the reply to the greeting, and no byte more. -EACCES: the ticket is refused. */
static int read_greeting_reply(struct ck_chan *chan)
{
	unsigned char body[GREETING_SIZE];
	ck_direct_res res = {.status = 1};
	uint32_t mark, xid, low, high;
	size_t size, at;
	XDR xdrs;
	int ret = ck_chan_read(chan, &mark, MARK);

	if (ret < 0)
		return ret;
	size = ntohl(mark) & 0x7fffffffu;
	if (!(ntohl(mark) & 0x80000000u) || size > sizeof(body))
		return -EPROTO;
	ret = ck_chan_read(chan, body, size);
	if (ret == 0)
		ret = ck_reply_decode(body, size, &xid, &at, &low, &high);
	if (ret < 0)
		return ret;
	xdrmem_create(&xdrs, (char *)body + at, (u_int)(size - at), XDR_DECODE);
	if (!xdr_ck_direct_res(&xdrs, &res))
		return -EPROTO;
	return res.status == 0 ? 0 : -EACCES;
}

/* Handshakes on all channels. On error, some are NULL. */
static int encrypt_channels(struct ck_tls *tls, struct ck_chan **chans, unsigned int count,
			    char why[CK_TLS_WHY])
{
	int ret = 0;

	for (unsigned int i = 0; ret == 0 && i < count; i++)
		ret = ck_tls_probe(chans[i]);
	for (unsigned int i = 0; ret == 0 && i < count; i++)
		ret = ck_tls_probed(chans[i]);
	for (unsigned int i = 0; ret == 0 && i < count; i++) {
		struct ck_chan *plain = chans[i];

		chans[i] = NULL; /* closed on error */
		ret = ck_tls_open(tls, "", plain, &chans[i]);
		if (ret == 0)
			ret = ck_tls_begin(chans[i], why);
	}
	for (unsigned int i = 0; ret == 0 && i < count; i++)
		ret = ck_tls_finish(chans[i], why);
	return ret;
}

static int try_address(const char *address, struct cks_dial *dial, struct ck_chan **chans)
{
	const struct ck_tls_files files = {.pin = dial->pin};
	char why[CK_TLS_WHY] = "";
	int ret = ck_chan_dial_many(address, DIAL_MS, chans, dial->count);

	if (ret < 0)
		return ret;
	for (unsigned int i = 0; i < dial->count; i++)
		ck_chan_timeout(chans[i], DIAL_MS);
	if (dial->pin[0] && !dial->tls)
		ret = ck_tls_create_client(&files, &dial->tls, why);
	if (ret == 0 && dial->tls)
		ret = encrypt_channels(dial->tls, chans, dial->count, why);
	for (unsigned int i = 0; ret == 0 && i < dial->count; i++)
		ret = send_greeting(chans[i], dial, i);
	for (unsigned int i = 0; ret == 0 && i < dial->count; i++)
		ret = read_greeting_reply(chans[i]);
	for (unsigned int i = 0; ret < 0 && i < dial->count; i++) {
		if (chans[i])
			ck_chan_close(chans[i]);
	}
	if (ret < 0 && why[0])
		ck_warn("no direct connection to the server at %s: %s", address, why);
	return ret;
}

/* One line of @from, up to @end. False: it is too long. */
static bool take_line(const char **from, const char *end, char line[ADDRESS_SIZE])
{
	const char *stop = memchr(*from, '\n', (size_t)(end - *from));
	size_t length = (size_t)((stop ? stop : end) - *from);
	bool fits = length < ADDRESS_SIZE;

	snprintf(line, ADDRESS_SIZE, "%.*s", (int)(fits ? length : 0), *from);
	*from = stop ? stop + 1 : end;
	return fits;
}

int cks_dial(const struct cks_direct *d, struct cks_dial *dial, struct ck_chan **chans)
{
	const char *from = dial->addresses, *end = from + dial->addresses_size;
	char line[ADDRESS_SIZE], address[ADDRESS_SIZE] = "any address";
	struct sockaddr_storage peer;
	int64_t until = ck_now_ms() + ALL_MS - DIAL_MS;
	int ret = -EACCES;

	for (int i = 0; from < end && i < ADDRESSES_MAX && ret < 0 && ck_now_ms() < until; i++) {
		if (!take_line(&from, end, line) || !cks_allowed_peers_address(line, &peer))
			continue;
		print_address(&peer, address);
		if (d->allowed && cks_allowed_peers_has(d->allowed, &peer))
			ret = try_address(address, dial, chans);
		else
			ck_debug("%s is not among --pool-peers", address);
	}
	if (ret == 0)
		ck_info("%u direct connections to the server at %s", dial->count, address);
	else
		ck_info("no direct connection to the server at %s: %s: copies go through the "
			"client",
			address,
			ret == -EACCES ? "not allowed (--pool-peers), or refused" : strerror(-ret));
	return ret;
}

/* --- the other way round: where this host can be reached */

static size_t add_address(char *text, size_t used, size_t size,
			  const struct sockaddr_storage *address)
{
	char line[ADDRESS_SIZE];
	int n;

	print_address(address, line);
	n = snprintf(text + used, size - used, "%s\n", line);
	return n > 0 && (size_t)n < size - used ? used + (size_t)n : used;
}

static uint16_t *port_of(struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET ? &((struct sockaddr_in *)address)->sin_port
					     : &((struct sockaddr_in6 *)address)->sin6_port;
}

/* The addresses of the host's networks, with @port. */
static size_t add_all(char *text, size_t used, size_t size, uint16_t port)
{
	struct ifaddrs *list;

	if (getifaddrs(&list) < 0)
		return used;
	for (struct ifaddrs *i = list; i; i = i->ifa_next) {
		struct sockaddr_storage address = {0};
		int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;

		if ((i->ifa_flags & (IFF_UP | IFF_LOOPBACK)) != IFF_UP ||
		    (family != AF_INET && family != AF_INET6))
			continue;
		memcpy(&address, i->ifa_addr,
		       family == AF_INET ? sizeof(struct sockaddr_in)
					 : sizeof(struct sockaddr_in6));
		if (family == AF_INET6 &&
		    IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)&address)->sin6_addr))
			continue;
		*port_of(&address) = port;
		used = add_address(text, used, size, &address);
	}
	freeifaddrs(list);
	return used;
}

static bool is_any(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

	return address->ss_family == AF_INET ? v4->sin_addr.s_addr == htonl(INADDR_ANY)
					     : IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
}

size_t cks_dial_own(const struct cks_direct *d, char *text, size_t size)
{
	struct sockaddr_storage address;
	size_t used = 0;

	for (size_t i = 0; i < d->listen_count; i++) {
		if (!cks_allowed_peers_address(d->listen[i], &address))
			continue;
		if (is_any(&address))
			used = add_all(text, used, size, *port_of(&address));
		else
			used = add_address(text, used, size, &address);
	}
	return used;
}
