/*
 * server/checkpoint/lanes_open.c - the connections are made; see lanes.h.
 *
 * The secret comes over the main connection, which both ends trust. It is the key of the TLS
 * session that the sender begins, so an end without it can neither read nor write a chunk. Its hash
 * is the public name of that session.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/chan.h"
#include "rpc/tls.h"
#include "server/checkpoint/lanes.h"
#include "server/checkpoint/stream.h"
#include "util/address/address.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define DIAL_MS 3000	/* a network that drops packets to the port delays the move so long */
#define SHAKE_MS 4000	/* for a handshake: one end may be a stranger */
#define ACCEPT_MS 15000 /* for all of them */

/* Of a key that no certificate has: only the secret counts. */
#define NO_PIN "sha256:0000000000000000000000000000000000000000000000000000000000000000"

_Static_assert(sizeof(struct ck_hash) == CK_TLS_SECRET && CK_TLS_SESSION <= CK_TLS_SECRET, "all");

static void close_all(struct ck_chan *chans[CKS_LANES])
{
	for (size_t i = 0; i < CKS_LANES; i++) {
		if (chans[i])
			ck_chan_close(chans[i]);
		chans[i] = NULL;
	}
}

/* Both ends agree on @count connections. */
static struct cks_lanes *make_lanes(struct ck_chan *chans[CKS_LANES], struct ck_tls *tls,
				    json_int_t count)
{
	if (count != CKS_LANES) {
		close_all(chans);
		ck_tls_destroy(tls);
		return NULL;
	}
	for (size_t i = 0; i < CKS_LANES; i++)
		ck_chan_timeout(chans[i], CK_STREAM_QUIET_MS);
	return cks_lanes_create(chans, tls);
}

/* --- the receiver */

/* At any port of the host at which the server listens, @server. */
static int listen_beside(const char *server, uint16_t *port)
{
	char text[CK_ADDRESS_MAX], why[CK_ADDRESS_WHY];
	struct sockaddr_in6 bound; /* the port is at the same place in an IPv4 address */
	socklen_t size = sizeof(bound);
	struct ck_address a;
	int fd;

	if (ck_address_parse(server, &a, why) < 0 || !a.host[0])
		return -1;
	snprintf(text, sizeof(text), a.ipv6 ? "[%s]:0" : "%s:0", a.host);
	fd = ck_chan_listen(text);
	if (fd >= 0 && getsockname(fd, (struct sockaddr *)&bound, &size) == 0) {
		*port = ntohs(bound.sin6_port);
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

json_t *cks_lanes_listen(struct cks_lanes_door *door, const char *server)
{
	char text[CK_HASH_TEXT];
	uint16_t port = 0;

	*door = (struct cks_lanes_door){.fd = -1};
	if (!server || getrandom(&door->secret, sizeof(door->secret), 0) != sizeof(door->secret))
		return NULL;
	door->fd = listen_beside(server, &port);
	if (door->fd < 0)
		return NULL;
	ck_hash_print(&door->secret, text);
	return json_pack("{s:i, s:s}", "port", (int)port, "secret", text);
}

void cks_lanes_close(struct cks_lanes_door *door)
{
	if (door->fd >= 0)
		close(door->fd);
	explicit_bzero(&door->secret, sizeof(door->secret));
	door->fd = -1;
}

/* Within a time that a stranger cannot make longer by single bytes. */
static int shake(struct ck_chan *chan, char why[CK_TLS_WHY])
{
	struct pollfd p = {.fd = ck_chan_fd(chan), .events = POLLIN};
	int64_t until = ck_now_ms() + SHAKE_MS, now;
	int ret = -EAGAIN;

	while (ret == -EAGAIN && (now = ck_now_ms()) < until) {
		if (poll(&p, 1, (int)(until - now)) > 0)
			ret = ck_tls_step(chan, why);
	}
	return ret == -EAGAIN ? -ETIMEDOUT : ret;
}

/* A connection that has come, if it is one of the move; else NULL. */
static struct ck_chan *admit(int fd, struct ck_tls *tls)
{
	char why[CK_TLS_WHY] = "";
	struct ck_chan *chan;
	int ret = ck_chan_adopt(fd, &chan);

	if (ret < 0) {
		close(fd);
		return NULL;
	}
	ck_chan_timeout(chan, SHAKE_MS);
	if (ck_tls_open(tls, NULL, chan, &chan) < 0)
		return NULL;
	ret = shake(chan, why);
	if (ret == 0 && ck_tls_by_secret(chan))
		return chan;
	ck_info("a connection that does not belong to the move: %s", why);
	ck_chan_close(chan);
	return NULL;
}

static json_int_t admit_all(const struct cks_lanes_door *door, struct ck_tls *tls,
			    struct ck_chan *chans[CKS_LANES])
{
	struct pollfd p = {.fd = door->fd, .events = POLLIN};
	int64_t until = ck_now_ms() + ACCEPT_MS, now;
	json_int_t count = 0;
	int fd;

	while (count < CKS_LANES && (now = ck_now_ms()) < until) {
		fd = poll(&p, 1, (int)(until - now)) > 0
			     ? accept4(door->fd, NULL, NULL, SOCK_CLOEXEC)
			     : -1;
		chans[count] = fd >= 0 ? admit(fd, tls) : NULL;
		count += chans[count] != NULL;
	}
	return count;
}

static int create_session(const struct ck_hash *secret, struct ck_tls **tls)
{
	char why[CK_TLS_WHY];
	struct ck_hash name;

	ck_hash(secret, sizeof(*secret), &name);
	return ck_tls_create_session(name.bytes, secret->bytes, tls, why);
}

int cks_lanes_accept(struct cks_lanes_door *door, int stream, const json_t *json,
		     struct cks_lanes **lanes, struct cks_why *why)
{
	struct ck_chan *chans[CKS_LANES] = {NULL};
	struct ck_tls *tls = NULL;
	json_int_t count = 0;
	int ret;

	*lanes = NULL;
	if (door->fd < 0 || json_integer_value(json_object_get(json, "lanes")) != CKS_LANES)
		return cks_why_set(why, EBADMSG,
				   "the other server uses another number of connections");
	if (create_session(&door->secret, &tls) == 0)
		count = admit_all(door, tls, chans);
	cks_lanes_close(door);
	*lanes = make_lanes(chans, tls, count);
	ret = cks_stream_write(stream,
			       json_pack("{s:b, s:I}", "ok", 1, "lanes", *lanes ? count : 0));
	return ret < 0 ? cks_why_set(why, -ret, "the connection to the other server: %m") : 0;
}

/* --- the sender */

/* The receiver, for one connection after the other. */
struct dialing {
	char address[CK_ADDRESS_MAX];
	struct ck_tls *tls;
	struct ck_hash secret;
};

static bool parse_door(const json_t *door, const char *address, struct dialing *d)
{
	json_int_t port = json_integer_value(json_object_get(door, "port"));
	const char *secret = json_string_value(json_object_get(door, "secret"));
	char reason[CK_ADDRESS_WHY];
	struct ck_address a;

	if (!secret || ck_hash_parse(secret, &d->secret) < 0 || port <= 0 || port > UINT16_MAX ||
	    ck_address_parse(address, &a, reason) < 0 || a.kind != CK_ADDRESS_TCP || !a.host[0])
		return false;
	snprintf(d->address, sizeof(d->address), a.ipv6 ? "[%s]:%d" : "%s:%d", a.host, (int)port);
	return true;
}

static int encrypt_lane(const struct dialing *d, uint64_t number, struct ck_chan *chan)
{
	char why[CK_TLS_WHY];
	struct ck_hash name;
	int ret;

	ck_hash(&d->secret, sizeof(d->secret), &name);
	ck_tls_offer(chan, name.bytes, d->secret.bytes, number);
	ret = ck_tls_begin(chan, why);
	if (ret == 0)
		ret = ck_tls_finish(chan, why);
	return ret == 0 && !ck_tls_by_secret(chan) ? -EACCES : ret;
}

/* All, the first of which is connected. The receiver takes one after the other. */
static int dial_all(const struct dialing *d, struct ck_chan *chans[CKS_LANES])
{
	int ret = 0;

	for (uint64_t i = 0; ret == 0 && i < CKS_LANES; i++) {
		struct ck_chan *plain = chans[i];

		chans[i] = NULL;
		if (!plain)
			ret = ck_chan_dial(d->address, DIAL_MS, &plain);
		if (ret < 0)
			break;
		ck_chan_timeout(plain, ACCEPT_MS);
		ret = ck_tls_open(d->tls, "", plain, &chans[i]);
		if (ret == 0)
			ret = encrypt_lane(d, i + 1, chans[i]);
	}
	return ret;
}

/* What the receiver has of them. */
static int take_answer(int stream, json_int_t *count, struct cks_why *why)
{
	json_t *answer = cks_stream_read(stream, why);

	if (!answer)
		return -EPIPE;
	*count = json_integer_value(json_object_get(answer, "lanes"));
	json_decref(answer);
	return 0;
}

int cks_lanes_dial(const json_t *door, const char *address, int stream, struct cks_lanes **lanes,
		   struct cks_why *why)
{
	const struct ck_tls_files files = {.pin = NO_PIN};
	struct ck_chan *chans[CKS_LANES] = {NULL};
	struct dialing d = {.tls = NULL};
	char reason[CK_TLS_WHY];
	json_int_t count = 0;
	int ret, dialed;

	*lanes = NULL;
	if (!parse_door(door, address, &d) || ck_tls_create_client(&files, &d.tls, reason) < 0)
		return 0;
	dialed = ck_chan_dial(d.address, DIAL_MS, &chans[0]);
	if (dialed < 0) {
		ck_info("no further connections to %s: %s", d.address, strerror(-dialed));
		ck_tls_destroy(d.tls);
		return 0;
	}
	ret = cks_stream_write(stream, json_pack("{s:i}", "lanes", CKS_LANES));
	dialed = ret == 0 ? dial_all(&d, chans) : ret;
	explicit_bzero(&d.secret, sizeof(d.secret));
	ret = ret < 0 ? cks_stream_failed(stream, ret, why) : take_answer(stream, &count, why);
	*lanes = make_lanes(chans, d.tls, ret == 0 && dialed == 0 ? count : 0);
	if (*lanes)
		ck_info("%d further connections to %s", CKS_LANES, d.address);
	else if (ret == 0)
		ck_info("no further connections to %s: %d of %d", d.address, (int)count, CKS_LANES);
	return ret;
}
