/*
 * client/wire/dial.c - find the server and open connections to it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <rpc/rpc.h>

#include "client/wire/dial.h"
#include "client/wire/state.h"
#include "client/wire/stats.h"
#include "rpc/chan.h"
#include "rpc/inject.h"
#include "util/env.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

int ckc_dial_timeout_ms(void)
{
	long seconds = ck_env_long("CRICKET_TIMEOUT");

	return seconds > 0 && seconds < 86400 ? (int)seconds * 1000 : 10000;
}

/* Open @count connections at the same time, and count the round trip that they take. */
static int dial(const char *address, struct ck_chan **chans, unsigned int count)
{
	uint64_t began = ckc_stats_on ? ckc_stats_clock() : 0;
	int ret = ck_chan_dial_many(address, ckc_dial_timeout_ms(), chans, count);

	if (ckc_stats_on && ret == 0)
		ckc_stats_waited(NULLPROC, 0, 0, began);
	return ret;
}

/* Connect to the unix socket of this host's server, if one answers. */
static bool dial_local(struct ckc_connection *at, struct ck_chan *chans[2])
{
	const char *path;

	for (unsigned int i = 0; (path = ck_chan_default_unix(i)) != NULL; i++) {
		snprintf(at->address, sizeof(at->address), "unix:%s", path);
		if (access(path, F_OK) == 0 && dial(at->address, chans, 2) == 0)
			return true;
	}
	return false;
}

/* Does @where name this host and the default port, so that the unix socket can replace it? */
static bool names_this_host(const char *where)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
	char port[16];

	snprintf(port, sizeof(port), ":%d", CK_DEFAULT_PORT);
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		size_t length = strlen(names[i]);

		if (strncmp(where, names[i], length) == 0 &&
		    (where[length] == '\0' || strcmp(where + length, port) == 0))
			return true;
	}
	return false;
}

/* Apply CRICKET_INJECT, if it is set and valid. */
static int play_network(void)
{
	const char *inject = ck_env_string("CRICKET_INJECT");
	int ret = ck_inject_set(inject);

	if (ret < 0)
		ck_err("CRICKET_INJECT=%s is neither rtt=TIME nor bw=RATE nor both, as in "
		       "rtt=500us,bw=10G",
		       inject);
	else if (ck_inject_current())
		ck_info("a slower network is played: CRICKET_INJECT=%s", inject);
	return ret;
}

static void note_server(struct ckc_connection *at, const struct ck_chan *chan)
{
	const char *peer = ck_chan_peer(chan);

	if (strncmp(peer, "tcp ", 4) == 0 && strcmp(peer, "tcp ?") != 0)
		snprintf(at->joins, sizeof(at->joins), "tcp://%s", peer + 4);
	else
		memcpy(at->joins, at->address, sizeof(at->joins));
}

static int dial_named(struct ckc_connection *at, const char *where, struct ck_chan *chans[2])
{
	char why[160];
	int ret;

	at->wanted = strncmp(where, "shm:", 4) == 0 && !ck_inject_current() ? CK_RINGS : CK_SOCKETS;
	snprintf(at->address, sizeof(at->address), "%s", where);
	ck_info("connection to host \"%s\"", at->address);
	ret = dial(at->address, chans, 2);
	if (ret < 0)
		ck_err("cannot reach the GPU server at REMOTE_GPU_ADDRESS=%s: %s", at->address,
		       ck_chan_dial_error(at->address, ret, why, sizeof(why)));
	return ret;
}

int ckc_dial_server(struct ckc_connection *at, struct ck_chan *chans[2])
{
	const char *where = ck_env_string("REMOTE_GPU_ADDRESS");
	bool anywhere = !where || !*where;
	int ret = play_network();

	if (ret < 0)
		return ret;
	at->wanted = CK_RINGS_IF_ANY;
	if ((anywhere || names_this_host(where)) && dial_local(at, chans)) {
		ck_info("connection to this host by \"%s\"", at->address);
	} else if (anywhere) {
		ck_err("no GPU server: none answers on this host's unix socket; start "
		       "cricket-rpc-server, "
		       "or set REMOTE_GPU_ADDRESS=HOST[:PORT] or unix:/PATH");
		return -ENODEV;
	} else {
		ret = dial_named(at, where, chans);
	}
	if (ret == 0)
		note_server(at, chans[0]);
	return ret;
}

int ckc_dial_again(const struct ckc_connection *at, struct ck_chan **chan)
{
	return dial(at->joins, chan, 1);
}
