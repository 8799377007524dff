/*
 * command/servers/connection.c - see connection.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command/servers/connection.h"
#include "rpc/chan.h"
#include "rpc/record.h"
#include "rpc/secure.h"
#include "util/address/server_addresses.h"
#include "util/until.h"

#define TRIPS 5
#define TIMEOUT_MS 5000

const char *ckx_connection_error(int ret)
{
	return ret == -EPIPE ? "it has closed the connection" : strerror(-ret);
}

static double now_us(void)
{
	return (double)ck_now_ns() / 1e3;
}

/* Connect to the first server that the address stands for and that answers, as a program does.
 * -EINVAL: it stands for none, and @r->why says why. */
static int dial_first(const struct ckx_server *server, struct ckx_connection *r,
		      struct ck_chan **chan)
{
	struct ck_server_addresses *places = malloc(sizeof(*places));
	char why[CK_SERVER_ADDRESSES_WHY] = "out of memory";
	int ret = places ? ck_server_addresses_find(server->address, places, why) : -ENOMEM;

	snprintf(r->at, sizeof(r->at), "%s", server->address);
	if (ret < 0) {
		snprintf(r->why, sizeof(r->why), "%s", why);
		free(places);
		return -EINVAL;
	}
	ret = -EINVAL;
	for (unsigned int i = 0; ret < 0 && i < places->count; i++) {
		snprintf(r->at, sizeof(r->at), "%.*s", CKX_TEXT + 7, places->list[i].address);
		ret = ck_chan_dial(r->at, TIMEOUT_MS, chan);
	}
	free(places);
	return ret;
}

static int try_usual(const char *path, void *chan)
{
	char at[CKX_TEXT + 8];

	snprintf(at, sizeof(at), "unix:%s", path);
	return ck_chan_dial(at, TIMEOUT_MS, chan);
}

static int dial_server(const struct ckx_server *server, struct ckx_connection *r,
		       struct ck_chan **chan)
{
	const char *path;
	int ret;

	if (server->address[0])
		return dial_first(server, r, chan);
	ret = ck_chan_try_usual(try_usual, chan, &path);
	snprintf(r->at, sizeof(r->at), "unix:%s", path ? path : "");
	return ret;
}

/* Encrypt the connection, if client and server would; @must: if it leaves this host. */
static int secure_channel(const struct ckx_server *server, struct ckx_connection *r, bool must,
			  struct ck_chan **chan)
{
	struct ck_secure *secure;
	int ret;

	ckx_tls_apply(&server->tls);
	if (must)
		setenv("CRICKET_TLS", "require", 1);
	if (server->token[0]) /* decides whether plain text will do */
		setenv("CRICKET_TOKEN", server->token, 1);
	ret = ck_secure_create(&secure, r->why);
	if (ret < 0) {
		ck_chan_close(*chan);
		return ret;
	}
	ret = ck_secure_channels(secure, r->at, chan, 1, TIMEOUT_MS, r->why);
	r->secure = ret == 0 && ck_secure_describe(*chan, r->tls, sizeof(r->tls));
	if (ret < 0 && !r->why[0])
		snprintf(r->why, sizeof(r->why), "%s", strerror(-ret));
	return ret;
}

static int call_null_proc(struct ck_chan *chan, struct ck_reader *reader, uint32_t xid)
{
	unsigned char out[CK_CALL_HEADER + 16];
	long size = ck_call_encode(out, sizeof(out), xid, 0, ck_code_nothing, NULL, 0);
	struct iovec iov = {.iov_base = out, .iov_len = (size_t)size};
	struct ck_record record;
	uint32_t answered, low, high;
	size_t results;
	int ret = size < 0 ? (int)size : ck_chan_writev(chan, &iov, 1);

	if (ret == 0)
		ret = ck_reader_next(reader, &record);
	if (ret == 0)
		ret = ck_reply_decode(record.body, record.body_size, &answered, &results, &low,
				      &high);
	return ret == 0 && answered != xid ? -EPROTO : ret;
}

static int time_calls(struct ck_chan *chan, struct ckx_connection *r)
{
	struct ck_reader *reader;
	int ret = ck_reader_create(chan, &reader);

	if (ret < 0)
		return ret;
	ck_chan_timeout(chan, TIMEOUT_MS);
	for (uint32_t i = 0; ret == 0 && i < TRIPS; i++) {
		double begin = now_us(), us;

		ret = call_null_proc(chan, reader, i + 1);
		us = now_us() - begin;
		if (ret == 0 && (!r->speaks || us < r->trip_us))
			r->trip_us = us;
		r->speaks |= ret == 0;
	}
	ck_reader_destroy(reader);
	return ret;
}

/* Connect, without TLS. */
static int open_plain(const struct ckx_server *server, struct ckx_connection *r,
		      struct ck_chan **chan)
{
	double begin = now_us();

	*r = (struct ckx_connection){.connected = false};
	r->error = dial_server(server, r, chan);
	if (r->error < 0) {
		if (!r->why[0])
			ck_chan_dial_error(r->at, r->error, r->why, sizeof(r->why));
		return r->error;
	}
	r->connected = true;
	r->connect_ms = (now_us() - begin) / 1e3;
	r->near = ckx_route(ck_chan_fd(*chan), r->route, sizeof(r->route));
	return 0;
}

static int open_chan(const struct ckx_server *server, struct ckx_connection *r, bool far_is_secure,
		     struct ck_chan **chan)
{
	int ret = open_plain(server, r, chan);

	if (ret < 0)
		return ret;
	ret = secure_channel(server, r, far_is_secure && !r->near, chan);
	r->trusted = ret == 0;
	return ret;
}

int ckx_connection_open(const struct ckx_server *server, struct ckx_connection *r,
			struct ck_chan **chan)
{
	int ret = open_chan(server, r, true, chan);

	if (ret < 0 || r->near || r->secure)
		return ret;
	ck_chan_close(*chan);
	snprintf(r->why, sizeof(r->why), "the connection is not encrypted");
	return -EKEYREJECTED;
}

int ckx_connection_dial(const struct ckx_server *server, struct ckx_connection *r,
			struct ck_chan **chan)
{
	return open_chan(server, r, false, chan);
}

void ckx_connection(const struct ckx_server *server, struct ckx_connection *r)
{
	struct ck_chan *chan;
	int ret;

	if (open_chan(server, r, false, &chan) < 0)
		return;
	ret = time_calls(chan, r);
	if (!r->speaks && !ck_chan_helper_ended(r->at, r->why, sizeof(r->why)))
		snprintf(r->why, sizeof(r->why),
			 "the program at this address is not a Cricket server: %s",
			 ckx_connection_error(ret));
	ck_chan_close(chan);
}

/* The key of the peer of @chan, which is closed. No certificate has the pin that is demanded, so
 * that the handshake ends when the server has shown its own. */
static int look_at_key(struct ck_chan *chan, char pin[CK_TLS_PIN], char why[CK_TLS_WHY])
{
	const struct ck_tls_files none = {
		.pin = "sha256:0000000000000000000000000000000000000000000000000000000000000000"};
	struct ck_tls *tls;
	int ret = ck_tls_create_client(&none, &tls, why);

	if (ret < 0) {
		ck_chan_close(chan);
		return ret;
	}
	ret = ck_tls_open(tls, "", chan, &chan);
	if (ret == 0) {
		ret = ck_tls_begin(chan, why);
		if (ret == 0)
			ret = ck_tls_finish(chan, why);
		if (ck_tls_peer_pin(chan, pin))
			ret = 0;
		ck_chan_close(chan);
	}
	ck_tls_destroy(tls);
	return ret;
}

int ckx_connection_pin(const struct ckx_server *server, struct ckx_connection *r,
		       char pin[CK_TLS_PIN])
{
	struct ck_chan *chan;
	int ret;

	pin[0] = '\0';
	ret = open_plain(server, r, &chan);
	if (ret < 0)
		return ret;
	if (strncmp(ck_chan_peer(chan), "tcp ", 4) != 0) {
		ck_chan_close(chan);
		return 0;
	}
	ck_chan_timeout(chan, TIMEOUT_MS);
	ret = ck_tls_probe(chan);
	if (ret == 0)
		ret = ck_tls_probed(chan);
	if (ret == 0)
		return look_at_key(chan, pin, r->why);
	ck_chan_close(chan);
	if (ret != -EOPNOTSUPP)
		snprintf(r->why, sizeof(r->why),
			 "the program at this address is not a Cricket server: %s",
			 ckx_connection_error(ret));
	return ret == -EOPNOTSUPP ? 0 : ret;
}
