/*
 * server/worker/session_tls.c - see session_tls.h.
 *
 * A thread of its own makes each handshake, and waits for its client. OpenSSL checks that the
 * client has the secret before it makes a key exchange, and takes each ClientHello once
 * (rpc/tls.h). So strangers cost a thread for some microseconds; only the session's own client can
 * be slow.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "cricket.h"
#include "rpc/chan.h"
#include "rpc/relayed.h"
#include "rpc/tls.h"
#include "server/session/session.h"
#include "server/worker/first_message.h"
#include "server/worker/session_tls.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define MOST 64		/* unfinished at a time; a client opens fewer, or tries again */
#define SILENCE_MS 5000 /* of the client, in a handshake and before its first message */

struct cks_session_tls {
	struct ck_mutex lock;
	const struct cks_session *session;
	struct ck_tls *tls; /* made with the first handshake */
	bool away;
	unsigned int count;
	struct ck_chan *list[MOST]; /* unfinished */
};

int cks_session_tls_create(const struct cks_session *session, struct cks_session_tls **out)
{
	struct cks_session_tls *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_SESSION_TLS);
	t->session = session;
	*out = t;
	return 0;
}

int cks_session_tls_choose(struct cks_session *s, int fd)
{
	_Static_assert(sizeof(s->secret) == CK_TLS_SECRET && CK_SECRET == CK_TLS_SECRET,
		       "all have one size");
	_Static_assert(sizeof(s->id) == CK_TLS_SESSION, "an id names the session in a ClientHello");
	s->has_secret = ck_relayed_get(fd, NULL);
	if (s->has_secret && getrandom(s->secret, sizeof(s->secret), 0) != sizeof(s->secret))
		return -EIO;
	return 0;
}

/* Does a handshake come? The supervisor has seen the whole first record. */
static bool begins_tls(struct ck_chan *chan)
{
	unsigned char first = 0;

	return recv(ck_chan_fd(chan), &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 &&
	       first == CK_TLS_FIRST_BYTE;
}

static int get_context(struct cks_session_tls *t, char why[CK_TLS_WHY])
{
	if (t->tls)
		return 0;
	if (!t->session->has_secret) {
		strcpy(why, "the session's first connection does not use TLS");
		return -EACCES;
	}
	return ck_tls_create_session(t->session->id, t->session->secret, &t->tls, why);
}

/* Take a place, and make *@chan an encrypted channel. On error, it is closed and NULL. */
static int begin_handshake(struct cks_session_tls *t, struct ck_chan **chan, char why[CK_TLS_WHY])
{
	struct ck_chan *connection = *chan;
	int ret;

	*chan = NULL;
	ck_lock(&t->lock);
	ret = t->away || t->count == MOST ? -EBUSY : get_context(t, why);
	if (ret == 0)
		ret = ck_tls_open(t->tls, NULL, connection, chan);
	else
		ck_chan_close(connection);
	if (ret == 0)
		t->list[t->count++] = *chan;
	ck_unlock(&t->lock);
	if (ret < 0 && ret != -EACCES)
		strcpy(why, strerror(-ret));
	return ret;
}

static void end_handshake(struct cks_session_tls *t, const struct ck_chan *chan)
{
	unsigned int i = 0;

	ck_lock(&t->lock);
	while (t->list[i] != chan)
		i++;
	t->list[i] = t->list[--t->count];
	ck_unlock(&t->lock);
}

int cks_session_tls_read_first(struct cks_session_tls *t, struct ck_chan **chan,
			       struct cks_first_message *first)
{
	char why[CK_TLS_WHY] = "";
	int ret;

	if (!begins_tls(*chan))
		return cks_first_message_read(*chan, first);
	ret = begin_handshake(t, chan, why);
	if (ret == 0) {
		ck_chan_timeout(*chan, SILENCE_MS);
		ret = ck_tls_finish(*chan, why);
		if (ret == 0)
			ret = cks_first_message_read(*chan, first);
		ck_chan_timeout(*chan, 0);
		end_handshake(t, *chan);
	}
	if (why[0])
		ck_info("%s: TLS with the session's secret: %s",
			*chan ? ck_chan_peer(*chan) : "a connection", why);
	return ret;
}

void cks_session_tls_leave(struct cks_session_tls *t)
{
	ck_lock(&t->lock);
	t->away = true;
	for (unsigned int i = 0; i < t->count; i++)
		ck_chan_shutdown(t->list[i]);
	ck_unlock(&t->lock);
}

void cks_session_tls_return(struct cks_session_tls *t)
{
	ck_lock(&t->lock);
	t->away = false;
	ck_unlock(&t->lock);
}

void cks_session_tls_rename(struct cks_session_tls *t)
{
	ck_lock(&t->lock);
	if (t->tls)
		ck_tls_destroy(t->tls);
	t->tls = NULL; /* made again with the next handshake */
	ck_unlock(&t->lock);
}
