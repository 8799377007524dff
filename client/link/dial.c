/*
 * client/link/dial.c - find the server and open connections to it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rpc/rpc.h>

#include "client/link/dial.h"
#include "client/link/state.h"
#include "client/link/stats.h"
#include "rpc/chan.h"
#include "rpc/secure.h"
#include "util/env.h"
#include "util/log.h"
#include "util/address/server_addresses.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define FIRST_MS 20   /* the shortest pause */
#define CLOSED_MS 640 /* the longest pause before a server that closes connections is tried again */

int ckc_dial_timeout_ms(void)
{
	long seconds = ck_env_long("CRICKET_TIMEOUT");

	return seconds > 0 && seconds < 86400 ? (int)seconds * 1000 : 10000;
}

/* Encrypt connections to the server that is called @name, if that is wanted. On error, all are
 * closed. -EKEYREJECTED: logged. */
static int encrypt_all(const struct ckc_connection *at, const char *name, struct ck_chan **chans,
		       unsigned int count, int timeout_ms)
{
	char why[CK_TLS_WHY];
	int ret = ck_secure_channels(at->secure, name, chans, count, timeout_ms, why);

	if (ret == -EKEYREJECTED && ck_secure_news(at->secure, why))
		ck_err("no connection to the GPU server at REMOTE_GPU_ADDRESS=%s: %s", name, why);
	return ret;
}

/* Open @count connections at the same time, to the server that is called @name, and encrypt the
 * first @encrypted of them. -EKEYREJECTED: logged. */
static int open_all(const struct ckc_connection *at, const char *address, const char *name,
		    struct ck_chan **chans, unsigned int count, unsigned int encrypted,
		    int timeout_ms)
{
	int ret = ck_chan_dial_many(address, timeout_ms, chans, count);

	if (ret < 0)
		return ret;
	ret = encrypt_all(at, name, chans, encrypted, timeout_ms);
	for (unsigned int i = encrypted; ret < 0 && i < count; i++)
		ck_chan_close(chans[i]);
	return ret;
}

/* Wait for @pause_ms, the longer the next time, before a server is tried again that has closed a
 * connection. false: @error is another one, or that was the last time. */
static bool wait_closed(unsigned int *pause_ms, int error)
{
	if ((error != -EPIPE && error != -ECONNRESET) || *pause_ms > CLOSED_MS)
		return false;
	usleep(*pause_ms * 1000);
	*pause_ms *= 2;
	return true;
}

/* The same again if a server closes a connection before the program has asked anything of it: that
 * of a host with more handshakes than it can make does (docs/security.md). */
static int open_in_time(const struct ckc_connection *at, const char *address,
			struct ck_chan **chans, unsigned int count, unsigned int encrypted)
{
	int ms = ckc_dial_timeout_ms();
	int ret = open_all(at, address, at->address, chans, count, encrypted, ms);

	for (unsigned int pause_ms = FIRST_MS; wait_closed(&pause_ms, ret);)
		ret = open_all(at, address, at->address, chans, count, encrypted, ms);
	return ret;
}

/* The same, and count the round trip that they take. */
static int dial_server(const struct ckc_connection *at, const char *address, struct ck_chan **chans,
		       unsigned int count, unsigned int encrypted)
{
	uint64_t began = ckc_stats_on ? ck_now_ns() : 0;
	int ret = open_in_time(at, address, chans, count, encrypted);

	if (ckc_stats_on && ret == 0)
		ckc_stats_waited(NULLPROC, 0, 0, began);
	return ret;
}

/* On one host, a further connection costs microseconds. Only the one of the hello is encrypted yet:
 * its reply may have a secret for the others. */
static int dial_first(const struct ckc_connection *at, struct ck_chan *chans[CKC_DIALED])
{
	bool here = ck_address_has(at->address, CK_ADDRESS_HERE);

	for (unsigned int i = CKC_DIALED_RESERVE; i < CKC_DIALED; i++)
		chans[i] = NULL;
	return dial_server(at, at->address, chans, here ? CKC_DIALED_RESERVE : CKC_DIALED, 1);
}

struct usual {
	struct ckc_connection *at;
	struct ck_chan **chans;
};

static int try_usual(const char *path, void *own)
{
	struct usual *u = own;

	snprintf(u->at->address, sizeof(u->at->address), "unix:%s", path);
	return access(path, F_OK) == 0 ? dial_first(u->at, u->chans) : -errno;
}

/* Connect to the unix socket of this host's server. 0 or -errno, and in @at the address of the
 * socket that it is about. */
static int dial_usual(struct ckc_connection *at, struct ck_chan *chans[CKC_DIALED])
{
	struct usual usual = {.at = at, .chans = chans};
	const char *path;
	int ret = ck_chan_try_usual(try_usual, &usual, &path);

	snprintf(at->address, sizeof(at->address), "unix:%s", path ? path : "");
	return ret;
}

/* Can the unix socket replace @where, which names this host? "local" starts a server only if none
 * is there. */
static bool names_this_host(const char *where)
{
	char why[CK_ADDRESS_WHY];
	struct ck_address a;

	return ck_address_parse(where, &a, why) == 0 && a.bare && ck_address_is_default_here(&a);
}

const char *ckc_dial_wish(const struct ckc_connection *at)
{
	return at->wish ? at->wish : ck_env_string("REMOTE_GPU_ADDRESS");
}

const char *ckc_dial_rest(const struct ckc_connection *at)
{
	if (at->places && !at->patient && at->place + 1 < at->places->count)
		return "; trying the next server";
	return at->rest ? at->rest : "";
}

static void note_server(struct ckc_connection *at, struct ck_chan *chan)
{
	const char *peer = ck_chan_peer(chan);

	_Static_assert(sizeof(at->pin) == CK_TLS_PIN, "it has room for a pin");
	if (!ck_tls_peer_pin(chan, at->pin))
		at->pin[0] = '\0';
	if (strncmp(peer, "tcp ", 4) == 0 && strcmp(peer, "tcp ?") != 0)
		snprintf(at->joins, sizeof(at->joins), "tcp://%s", peer + 4);
	else
		memcpy(at->joins, at->address, sizeof(at->joins));
}

static void log_unreached(const struct ckc_connection *at, int error)
{
	const char *wish = ckc_dial_wish(at);
	char why[CK_ADDRESS_WHY];

	ck_chan_dial_error(at->address, error, why, sizeof(why));
	if (!at->patient && at->place + 1 < at->places->count)
		ck_info("cannot reach the GPU server at %s: %s%s", at->address, why,
			ckc_dial_rest(at));
	else if (ck_address_has(wish, CK_ADDRESS_SEVERAL) && strcmp(wish, at->address) != 0)
		ck_err("cannot reach the GPU server at %s (REMOTE_GPU_ADDRESS=%s): %s%s",
		       at->address, wish, why, ckc_dial_rest(at));
	else
		ck_err("cannot reach the GPU server at REMOTE_GPU_ADDRESS=%s: %s%s", at->address,
		       why, ckc_dial_rest(at));
}

static int dial_named(struct ckc_connection *at, const char *where,
		      struct ck_chan *chans[CKC_DIALED])
{
	int ret;

	at->wanted = CK_RINGS_IF_ANY;
	if (names_this_host(where) && dial_usual(at, chans) == 0) {
		ck_info("connection to this host by \"%s\"", at->address);
		return 0;
	}
	if (ck_address_kind_of(where) != CK_ADDRESS_LOCAL)
		at->wanted = ck_address_has(where, CK_ADDRESS_RINGS) ? CK_RINGS : CK_SOCKETS;
	snprintf(at->address, sizeof(at->address), "%s", where);
	ck_info("connection to host \"%s\"", at->address);
	ret = dial_first(at, chans);
	if (ret < 0 && ret != -EKEYREJECTED)
		log_unreached(at, ret);
	return ret;
}

static int dial_anywhere(struct ckc_connection *at, struct ck_chan *chans[CKC_DIALED])
{
	char why[CK_ADDRESS_WHY];
	int ret;

	at->wanted = CK_RINGS_IF_ANY;
	ret = dial_usual(at, chans);
	if (ret == 0) {
		ck_info("connection to this host by \"%s\"", at->address);
		return 0;
	}
	if (ret == -ENOENT) {
		ck_err("no GPU server: none answers on this host's unix socket; start "
		       "cricket-rpc-server, or set REMOTE_GPU_ADDRESS=HOST[:PORT] or unix:/PATH");
		return -ENODEV;
	}
	ck_chan_dial_error(at->address, ret, why, sizeof(why));
	ck_err("no GPU server: %s: %s; or set REMOTE_GPU_ADDRESS=HOST[:PORT]",
	       ck_address_path(at->address), why);
	return -ENODEV;
}

/* The settings of TLS in the environment. */
static int learn_trust(struct ckc_connection *at)
{
	char why[CK_TLS_WHY];
	int ret = at->secure ? 0 : ck_secure_create(&at->secure, why);

	if (ret < 0)
		ck_err("%s", why);
	return ret;
}

int ckc_dial_begin(struct ckc_connection *at)
{
	const char *wish = ckc_dial_wish(at);
	char why[CK_SERVER_ADDRESSES_WHY];
	int ret = learn_trust(at);

	if (ret < 0 || !wish || !*wish)
		return ret;
	at->place = 0;
	at->busy = 0;
	at->patient = false;
	at->pause_ms = FIRST_MS;
	at->places = malloc(sizeof(*at->places));
	if (!at->places)
		return -ENOMEM;
	ret = ck_server_addresses_find(wish, at->places, why);
	if (ret < 0)
		ck_err("REMOTE_GPU_ADDRESS=%s: %s%s", wish, why, at->rest ? at->rest : "");
	return ret;
}

void ckc_dial_end(struct ckc_connection *at)
{
	free(at->places);
	at->places = NULL;
}

void ckc_dial_busy(struct ckc_connection *at)
{
	if (at->busy == 0)
		at->busy = at->place + 1;
}

bool ckc_dial_next(struct ckc_connection *at, bool waits)
{
	if (!at->places || at->patient)
		return false;
	if (at->place + 1 < at->places->count) {
		at->place++;
		return true;
	}
	at->patient = waits && at->busy && at->places->count > 1;
	if (at->patient)
		at->place = at->busy - 1;
	return at->patient;
}

bool ckc_dial_unfinished(struct ckc_connection *at, int error)
{
	at->unfinished = at->pin[0] && wait_closed(&at->pause_ms, error);
	return at->unfinished;
}

int ckc_dial_server(struct ckc_connection *at, struct ck_chan *chans[CKC_DIALED])
{
	int ret;

	ck_secure_forget(at->secure, false); /* of an attempt before */
	at->direct = false;
	at->unfinished = false;
	do
		ret = at->places ? dial_named(at, at->places->list[at->place].address, chans)
				 : dial_anywhere(at, chans);
	while (ret < 0 && ckc_dial_next(at, false));
	if (ret == 0)
		note_server(at, chans[0]);
	return ret;
}

/* Where the session may be now, as the file says that the user has named: -ENOENT: where it was. */
static int find_moved(const struct ckc_connection *at, char *out, size_t size)
{
	const char *wish = ckc_dial_wish(at);
	struct ck_server_addresses *places;
	char why[CK_SERVER_ADDRESSES_WHY];
	int ret;

	if (!wish || ck_address_kind_of(wish) != CK_ADDRESS_FILE)
		return -ENOENT;
	places = malloc(sizeof(*places));
	ret = places ? ck_server_addresses_find(wish, places, why) : -ENOMEM;
	if (ret == 0 && ck_server_addresses_has(places, at->address))
		ret = -ENOENT;
	if (ret == 0)
		snprintf(out, size, "%s", places->list[0].address);
	free(places);
	return ret;
}

int ckc_dial_missing(const struct ckc_connection *at, const char *moved, struct ck_chan **chans,
		     unsigned int count, int timeout_ms)
{
	char file[sizeof(at->address)];
	int ret;

	if (moved[0])
		return open_all(at, moved, moved, chans, count, count, timeout_ms);
	if (find_moved(at, file, sizeof(file)) == 0)
		return open_all(at, file, file, chans, count, count, timeout_ms);
	ret = open_all(at, at->joins, at->address, chans, count, count, timeout_ms);
	if (ret < 0 && strcmp(at->joins, at->address) != 0 &&
	    open_all(at, at->address, at->address, chans, count, count, timeout_ms) == 0)
		return 0;
	return ret;
}

int ckc_dial_again(const struct ckc_connection *at, struct ck_chan **chan)
{
	return dial_server(at, at->joins, chan, 1, 1);
}

int ckc_dial_encrypt(struct ckc_connection *at, struct ck_chan **chans, unsigned int count)
{
	int ret;

	if (!at->pin[0])
		return 0;
	ret = encrypt_all(at, at->address, chans, count, ckc_dial_timeout_ms());
	for (unsigned int i = 0; ret < 0 && i < count; i++)
		chans[i] = NULL;
	at->direct = ret == 0 && ck_tls_by_secret(chans[0]);
	return ret;
}
