/*
 * client/link/repair.c - see client/link/repair.h.
 */
#include <errno.h>
#include <stdlib.h>

#include "client/link/reconnect_link.h"
#include "client/link/repair.h"
#include "rpc/tls.h"

#define ATTEMPT_MS 3000	      /* for connecting, and for the replies */
#define ATTEMPT_FIRST_MS 1000 /* before the user has been told */

struct resending {
	struct ckc_client *client;
	struct ck_link *link;
};

static void *resend_link(void *arg)
{
	struct resending *r = arg;

	ck_lasting_resend(r->link->chan);
	ck_links_put(r->client->keeping.links, r->link);
	free(r);
	return NULL;
}

/* Send the bytes that the server lacks, in a thread of its own: it may have to wait for commands on
 * another channel. True: the thread puts the link. */
static bool begin_resend(struct ckc_client *c, struct ck_link *link)
{
	struct resending *r;

	if (!ck_lasting_has_unsent(link->chan))
		return false;
	r = malloc(sizeof(*r));
	if (r)
		*r = (struct resending){c, link};
	if (r && ckc_thread_start(resend_link, r) == 0)
		return true;
	free(r);
	ck_lasting_resend(link->chan);
	return false;
}

static void note_error(struct ckc_repair *r, int ret)
{
	if (ret < 0 && (r->error == 0 || ret == -ESTALE))
		r->error = ret;
}

/* Ask the server to continue channel @i over its new connection. */
static void request_resume(struct ckc_repair *r, size_t i)
{
	uint64_t received;
	int ret;

	ck_links_detach(r->client->keeping.links, r->links[i], &received);
	ret = ckc_reconnect_link_send(r->client, r->links[i], r->connections[i], received);
	if (ret == 0)
		return;
	note_error(r, ret);
	ck_chan_close(r->connections[i]);
	r->connections[i] = NULL;
}

/* The server's answer to that. */
static void take_answer(struct ckc_repair *r, size_t i)
{
	struct ckc_keeping *k = &r->client->keeping;
	ck_link_res res = {.status = 1};
	int ret = -ENOTCONN;

	_Static_assert(sizeof(k->moved) == CK_MOVED_MAX + 1, "an address fits");
	if (r->connections[i]) {
		ck_chan_timeout(r->connections[i], ATTEMPT_MS);
		ret = ckc_reconnect_link_answer(r->connections[i], &res, k->moved);
		ck_chan_timeout(r->connections[i], 0);
	}
	if (ret == 0 || ret == -EREMOTE)
		k->arriving = ret == -EREMOTE;
	if (ret == 0)
		ret = ck_lasting_fits(r->links[i]->chan, res.received);
	r->received[i] = res.received;
	r->answers[i] = ret;
	if (ret != -EACCES) /* that is for this channel alone */
		note_error(r, ret);
}

/* The server may have begun TLS before it had the session again, whose secret it lacked. */
static void note_relayed(struct ckc_repair *r, size_t i)
{
	r->links[i]->relayed = r->client->connection.direct && !ck_tls_by_secret(r->connections[i]);
	r->relayed = r->relayed || r->links[i]->relayed;
}

/* Continue channel @i, if the server does; puts the link. */
static void go_on(struct ckc_repair *r, size_t i)
{
	struct ckc_keeping *k = &r->client->keeping;
	struct ck_link *link = r->links[i];
	int ret = r->answers[i];

	if (ret == 0 && r->error == -ESTALE)
		ret = -ESTALE;
	if (ret == 0) {
		note_relayed(r, i);
		ret = ck_links_attach(k->links, link, r->connections[i], r->received[i], false,
				      ckc_link_needs_listener(link));
	} else {
		ck_chan_close(r->connections[i]);
	}
	if (ret == -EACCES)
		ck_lasting_give_up(link->chan, ret);
	else
		note_error(r, ret);
	if (ret < 0 || !begin_resend(r->client, link))
		ck_links_put(k->links, link);
}

void ckc_repair_attempt(struct ckc_repair *r)
{
	r->error = ckc_dial_missing(&r->client->connection, r->client->keeping.moved,
				    r->connections, (unsigned int)r->count,
				    r->client->keeping.told ? ATTEMPT_MS : ATTEMPT_FIRST_MS);
	if (r->error == -ENOENT) /* of the socket of a tunnel, not of the session */
		r->error = -ECONNREFUSED;
	if (r->error < 0) {
		for (size_t i = 0; i < r->count; i++)
			ck_links_put(r->client->keeping.links, r->links[i]);
		return;
	}
	for (size_t i = 0; i < r->count; i++)
		request_resume(r, i);
	for (size_t i = 0; i < r->count; i++)
		take_answer(r, i);
	for (size_t i = 0; i < r->count; i++)
		go_on(r, i);
}
