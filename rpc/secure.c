/*
 * rpc/secure.c - see secure.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "rpc/secure.h"
#include "util/env.h"
#include "util/address/token.h"
#include "util/process/stack.h"
#include "util/util.h"

/* Bytes of stack for a handshake: ML-KEM takes 10 KiB, a certificate about as much. */
#define HANDSHAKE_STACK ((size_t)64 << 10)

struct ck_secure {
	enum { AUTOMATIC, OFF, OFFER, REQUIRE } mode;
	bool configured; /* a variable says whom to trust */
	bool token;
	pthread_mutex_t lock;
	struct ck_tls *tls;    /* made when it is first needed; NULL: not yet */
	char told[CK_TLS_WHY]; /* the last reason */
	struct {
		bool known;
		unsigned char id[CK_TLS_SESSION], secret[CK_TLS_SECRET];
		uint64_t number; /* of the last connection */
	} session;
};

static const char *get_env_variable(const char *name)
{
	const char *value = ck_env_string(name);

	return value && *value ? value : NULL;
}

static int read_mode(struct ck_secure *s, char why[CK_TLS_WHY])
{
	const char *mode = get_env_variable("CRICKET_TLS");

	s->configured = get_env_variable("CRICKET_TLS_CA") ||
			get_env_variable("CRICKET_TLS_CERT") ||
			get_env_variable("CRICKET_TLS_KEY") || get_env_variable("CRICKET_TLS_PIN");
	s->token = ck_token_is_set();
	if (!mode)
		s->mode = s->configured ? REQUIRE : AUTOMATIC;
	else if (strcmp(mode, "require") == 0)
		s->mode = REQUIRE;
	else if (strcmp(mode, "offer") == 0)
		s->mode = OFFER;
	else if (strcmp(mode, "off") == 0)
		s->mode = OFF;
	else
		return snprintf(why, CK_TLS_WHY, "CRICKET_TLS=%.60s is not require, offer or off",
				mode),
		       -EINVAL;
	return 0;
}

int ck_secure_create(struct ck_secure **secure, char why[CK_TLS_WHY])
{
	struct ck_secure *s = calloc(1, sizeof(*s));
	int ret;

	snprintf(why, CK_TLS_WHY, "out of memory");
	if (!s)
		return -ENOMEM;
	ret = read_mode(s, why);
	if (ret < 0) {
		free(s);
		return ret;
	}
	pthread_mutex_init(&s->lock, NULL);
	*secure = s;
	return 0;
}

void ck_secure_destroy(struct ck_secure *s)
{
	if (!s)
		return;
	ck_tls_destroy(s->tls);
	explicit_bzero(&s->session, sizeof(s->session));
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static int get_tls_context(struct ck_secure *s, struct ck_tls **tls, char why[CK_TLS_WHY])
{
	const struct ck_tls_files files = {.ca = get_env_variable("CRICKET_TLS_CA"),
					   .cert = get_env_variable("CRICKET_TLS_CERT"),
					   .key = get_env_variable("CRICKET_TLS_KEY"),
					   .pin = get_env_variable("CRICKET_TLS_PIN")};
	int ret = 0;

	pthread_mutex_lock(&s->lock);
	if (!s->tls)
		ret = ck_tls_create_client(&files, &s->tls, why);
	*tls = s->tls;
	pthread_mutex_unlock(&s->lock);
	return ret < 0 ? -EKEYREJECTED : 0;
}

/* Do the bytes stay on this host? Both ends of such a connection have the same address. */
static bool stays_here(struct ck_chan *chan)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_storage room;
	} own = {.any.sa_family = AF_UNSPEC}, peer = {.any.sa_family = AF_UNSPEC};
	socklen_t own_size = sizeof(own), peer_size = sizeof(peer);

	if (getsockname(ck_chan_fd(chan), &own.any, &own_size) < 0 ||
	    getpeername(ck_chan_fd(chan), &peer.any, &peer_size) < 0)
		return false;
	if (own.any.sa_family == AF_INET)
		return own.v4.sin_addr.s_addr == peer.v4.sin_addr.s_addr ||
		       ntohl(peer.v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	if (own.any.sa_family == AF_INET6)
		return memcmp(&own.v6.sin6_addr, &peer.v6.sin6_addr, sizeof(own.v6.sin6_addr)) == 0;
	return own.any.sa_family == AF_UNIX;
}

static void close_all(struct ck_chan **chans, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		ck_chan_close(chans[i]);
}

static void set_timeout(struct ck_chan **chans, unsigned int count, int ms)
{
	for (unsigned int i = 0; i < count; i++)
		ck_chan_timeout(chans[i], ms);
}

static int send_probes(struct ck_chan **chans, unsigned int count)
{
	int ret = 0;

	for (unsigned int i = 0; ret == 0 && i < count; i++)
		ret = ck_tls_probe(chans[i]);
	return ret;
}

static int read_answers(struct ck_chan **chans, unsigned int count)
{
	unsigned int plain = 0;
	int ret = 0;

	for (unsigned int i = 0; ret == 0 && i < count; i++) {
		ret = ck_tls_probed(chans[i]);
		plain += ret == -EOPNOTSUPP;
		ret = ret == -EOPNOTSUPP ? 0 : ret; /* it is used all the same, if it may be */
	}
	if (ret == 0 && plain > 0)
		ret = plain == count ? -EOPNOTSUPP : -EPROTO;
	return ret;
}

static int refuse_plain(const struct ck_secure *s, char why[CK_TLS_WHY])
{
	if (s->mode == REQUIRE)
		snprintf(why, CK_TLS_WHY,
			 "the server has no TLS, which %s: give it a certificate (--tls-cert)",
			 get_env_variable("CRICKET_TLS") ? "CRICKET_TLS=require demands"
							 : "the CRICKET_TLS_... variables demand");
	else
		snprintf(
			why, CK_TLS_WHY,
			"the server has no TLS, and CRICKET_TOKEN would cross the network in plain "
			"text: give the server a certificate (--tls-cert), or set CRICKET_TLS=off "
			"if no one else can read this network");
	return -EKEYREJECTED;
}

void ck_secure_session(struct ck_secure *s, const unsigned char session[CK_TLS_SESSION],
		       const unsigned char secret[CK_TLS_SECRET])
{
	pthread_mutex_lock(&s->lock);
	memcpy(s->session.id, session, CK_TLS_SESSION);
	memcpy(s->session.secret, secret, CK_TLS_SECRET);
	s->session.known = true;
	pthread_mutex_unlock(&s->lock);
}

void ck_secure_forget(struct ck_secure *s, bool forked)
{
	if (!s)
		return;
	if (!forked)
		pthread_mutex_lock(&s->lock);
	explicit_bzero(&s->session, sizeof(s->session));
	if (!forked)
		pthread_mutex_unlock(&s->lock);
}

static bool has_session(struct ck_secure *s)
{
	bool known;

	pthread_mutex_lock(&s->lock);
	known = s->session.known;
	pthread_mutex_unlock(&s->lock);
	return known;
}

/* Numbers rise by chance, so that a program that is restored from a file repeats none. */
static void offer_session(struct ck_secure *s, struct ck_chan *chan)
{
	uint32_t step = 0;

	if (getrandom(&step, sizeof(step), 0) != sizeof(step))
		step = 0;
	pthread_mutex_lock(&s->lock);
	s->session.number += (uint64_t)step + 1;
	if (s->session.known)
		ck_tls_offer(chan, s->session.id, s->session.secret, s->session.number);
	pthread_mutex_unlock(&s->lock);
}

/* Make TLS channels of all. On error, closes all. */
static int open_channels(struct ck_tls *tls, const char *host, struct ck_chan **chans,
			 unsigned int count)
{
	unsigned int made = 0;
	int ret = 0;

	while (ret == 0 && made < count) {
		ret = ck_tls_open(tls, host, chans[made], &chans[made]);
		if (ret == 0)
			made++;
	}
	if (ret < 0) {
		close_all(chans, made);
		close_all(chans + made + 1, count - made - 1);
	}
	return ret;
}

/* Handshakes on all channels at the same time. @asked: their first step overtakes the answers to
 * probes, which saves a round trip. On error, closes all. */
static int handshake_channels(struct ck_secure *s, struct ck_chan **chans, unsigned int count,
			      bool asked, char why[CK_TLS_WHY])
{
	int ret = 0;

	for (unsigned int i = 0; ret == 0 && i < count; i++) {
		offer_session(s, chans[i]);
		ret = ck_tls_begin(chans[i], why);
	}
	if (ret == 0 && asked) {
		ret = read_answers(chans, count);
		if (ret == -EOPNOTSUPP)
			ret = refuse_plain(s, why);
	}
	for (unsigned int i = 0; ret == 0 && i < count; i++)
		ret = ck_tls_finish(chans[i], why);
	if (ret < 0)
		close_all(chans, count);
	return ret == -EACCES ? -EKEYREJECTED : ret; /* a dial returns the former for a socket */
}

static bool tls_is_wanted(struct ck_secure *s, struct ck_chan **chans)
{
	if (!s || strncmp(ck_chan_peer(chans[0]), "tcp ", 4) != 0 || s->mode == OFF)
		return false;
	return has_session(s) || s->mode != AUTOMATIC || (s->token && !stays_here(chans[0]));
}

/* The arguments of ck_secure_channels, and its result. */
struct asked {
	struct ck_secure *s;
	const char *address;
	struct ck_chan **chans;
	unsigned int count;
	int timeout_ms;
	char *why;
	int ret;
};

/* On error, closes all. */
static int encrypt_channels(const struct asked *a)
{
	struct ck_secure *s = a->s;
	bool probes = !has_session(s); /* else its server has TLS */
	bool may_be_plain = probes && s->mode == OFFER && !(s->token && !stays_here(a->chans[0]));
	struct ck_tls *tls = NULL;
	struct ck_address where;
	int ret = probes ? send_probes(a->chans, a->count) : 0;

	if (ret == 0 && may_be_plain)
		ret = read_answers(a->chans, a->count);
	if (ret == -EOPNOTSUPP)
		return 0;
	if (ret == 0)
		ret = get_tls_context(s, &tls, a->why);
	if (ret < 0) {
		close_all(a->chans, a->count);
		return ret;
	}
	if (ck_address_parse(a->address, &where, a->why) < 0)
		where.host[0] = '\0';
	ret = open_channels(tls, where.host, a->chans, a->count);
	return ret < 0 ? ret
		       : handshake_channels(s, a->chans, a->count, probes && !may_be_plain, a->why);
}

static void secure_channels(void *asked)
{
	struct asked *a = asked;

	set_timeout(a->chans, a->count, a->timeout_ms);
	a->ret = encrypt_channels(a);
	if (a->ret == 0)
		set_timeout(a->chans, a->count, 0);
}

int ck_secure_channels(struct ck_secure *s, const char *address, struct ck_chan **chans,
		       unsigned int count, int timeout_ms, char why[CK_TLS_WHY])
{
	struct asked asked = {s, address, chans, count, timeout_ms, why, 0};

	why[0] = '\0';
	if (!tls_is_wanted(s, chans))
		return 0;
	if (ck_stack_run(HANDSHAKE_STACK, secure_channels, &asked) == 0)
		return asked.ret;
	close_all(chans, count);
	return -EAGAIN;
}

bool ck_secure_news(struct ck_secure *s, const char *why)
{
	bool news;

	pthread_mutex_lock(&s->lock);
	news = strcmp(s->told, why) != 0;
	snprintf(s->told, sizeof(s->told), "%s", why);
	pthread_mutex_unlock(&s->lock);
	return news;
}

bool ck_secure_describe(struct ck_chan *chan, char *text, size_t size)
{
	return ck_tls_describe(chan, text, size);
}
