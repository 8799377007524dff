/*
 * client/link/repair.c - see client/link/repair.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/link/reconnect_link.h"
#include "client/link/repair.h"
#include "rpc/secure.h"
#include "rpc/tls.h"
#include "util/address/address.h"
#include "util/hash.h"
#include "util/until.h"

#define ATTEMPT_MS 3000	      /* for connecting, and for the replies */
#define ATTEMPT_FIRST_MS 1000 /* before the user has been told */

#define LINE_MAX_BYTES 1024 /* of a line of the file that names the server */

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
	char moved[CK_MOVED_MAX + 1] = "";
	ck_link_res res = {.status = 1};
	int ret = -ENOTCONN;

	_Static_assert(sizeof(k->moved) == sizeof(moved), "an address fits");
	if (r->connections[i]) {
		ck_chan_timeout(r->connections[i], ATTEMPT_MS);
		ret = ckc_reconnect_link_answer(r->connections[i], &res, moved);
		ck_chan_timeout(r->connections[i], 0);
	}
	r->leaves |= ret == -EREMOTE && !moved[0];
	if (ret == -EREMOTE && moved[0])
		memcpy(k->moved, moved, sizeof(moved));
	if (ret == 0 || (ret == -EREMOTE && moved[0]))
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

/* --- programs in files, and their copies (repair.h) */

/* The words of one line behind the address. */
struct words {
	char what[8], session[CK_HASH_TEXT], names[CK_HASH_TEXT], secret[CK_HASH_TEXT];
};

static bool is_ours(const struct ckc_client *c, const char *session)
{
	char text[CK_HASH_TEXT];
	struct ck_hash hash;

	ck_hash(c->hello.session, sizeof(c->hello.session), &hash);
	ck_hash_print(&hash, text);
	return session[0] && strncmp(text, session, strlen(session)) == 0;
}

/* The program has been written before, perhaps on another machine: no time has passed. */
static void take_names(struct ckc_client *c, const struct ck_hash *names,
		       const struct ck_hash *secret)
{
	struct ckc_keeping *k = &c->keeping;
	const size_t id = sizeof(c->hello.session);

	_Static_assert(sizeof(c->hello.session) + sizeof(c->hello.key) == CK_HASH_SIZE,
		       "two names have the size of a hash");
	ck_lock(&k->names_lock);
	memcpy(c->hello.session, names->bytes, id);
	memcpy(c->hello.key, names->bytes + id, sizeof(c->hello.key));
	ck_unlock(&k->names_lock);
	if (c->connection.direct)
		ck_secure_session(c->connection.secure, names->bytes, secret->bytes);
	k->since = ck_now_ms();
	k->moved[0] = '\0';
	k->arriving = false;
}

/* Whether @line holds the program; the one of a copy counts once. */
static bool read_line(struct ckc_client *c, const char *line)
{
	struct ck_hash names, secret;
	struct words w = {.what = ""};

	if (sscanf(line, "%*s %7s %64s %64s %64s", w.what, w.session, w.names, w.secret) < 1)
		return false;
	if (strcmp(w.what, "copy") == 0 && is_ours(c, w.session) &&
	    ck_hash_parse(w.names, &names) == 0 && ck_hash_parse(w.secret, &secret) == 0)
		take_names(c, &names, &secret);
	explicit_bzero(&names, sizeof(names));
	explicit_bzero(&secret, sizeof(secret));
	explicit_bzero(&w.names, sizeof(w.names) + sizeof(w.secret));
	return strcmp(w.what, "hold") == 0;
}

/* Read the file, if there is one. True: there must be no connection. */
static bool is_held(struct ckc_client *c)
{
	const char *wish = ckc_dial_wish(&c->connection);
	char line[LINE_MAX_BYTES];
	bool holds = false;
	FILE *f;

	if (!wish || ck_address_kind_of(wish) != CK_ADDRESS_FILE)
		return false;
	f = fopen(ck_address_path(wish), "re");
	while (f && !holds && fgets(line, sizeof(line), f))
		holds = read_line(c, line);
	if (f)
		fclose(f);
	explicit_bzero(line, sizeof(line));
	if (holds)
		c->keeping.held = true;
	return holds;
}

/* CRIU does not write broken sockets either. */
static void close_broken(struct ckc_repair *r)
{
	uint64_t received;

	for (size_t i = 0; i < r->count; i++)
		ck_links_detach(r->client->keeping.links, r->links[i], &received);
}

static int open_connections(struct ckc_repair *r)
{
	r->held = is_held(r->client);
	if (r->held) {
		close_broken(r);
		return -EAGAIN;
	}
	return ckc_dial_missing(&r->client->connection, r->client->keeping.moved, r->connections,
				(unsigned int)r->count,
				r->client->keeping.told ? ATTEMPT_MS : ATTEMPT_FIRST_MS);
}

void ckc_repair_attempt(struct ckc_repair *r)
{
	r->error = open_connections(r);
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
