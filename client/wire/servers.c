/*
 * client/wire/servers.c - connecting to the servers of REMOTE_GPU_ADDRESS; see servers.h.
 */
#include <stdlib.h>
#include <string.h>

#include "client/link/dial.h"
#include "client/link/session_list.h"
#include "client/wire/servers.h"
#include "client/link/uuid_alias.h"
#include "util/cancel.h"
#include "util/env.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

static struct ckc_client *session_at(unsigned int index)
{
	if (index == 0)
		return ckc_client_root();
	if (!ckc_sessions.list[index])
		ckc_sessions.list[index] = ckc_client_create();
	return ckc_sessions.list[index];
}

static bool goes_on_without(void)
{
	const char *pool = ck_env_string("CRICKET_POOL");

	return pool && strcmp(pool, "any") == 0;
}

/* Connect @c to a server, as number @index of the list. @rest: the consequence if that fails, for
 * messages. @hurried: do not wait in its line. */
static CUresult open_one(struct ckc_client *c, unsigned int index,
			 const struct ck_server_entry *entry, const char *rest, bool hurried)
{
	struct ck_server_entry *own = malloc(sizeof(*own));
	CUresult err = c && own ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

	if (!err) {
		*own = *entry;
		c->index = index;
		c->connection.entry = own;
		c->connection.wish = own->address;
		c->connection.rest = rest;
		c->connection.hurried = hurried;
		c->connection.failed = CUDA_SUCCESS; /* of the server that this one follows */
		ckc_sessions.list[index] = c;
		err = ckc_session_open(c);
	}
	if (!err) {
		ckc_sessions.entries[index] = own;
		return CUDA_SUCCESS;
	}
	if (c) {
		c->connection.wish = NULL;
		c->connection.entry = NULL;
	}
	free(own);
	return err;
}

/* Connect to one more server. */
static CUresult open_next(const struct ck_server_entry *entry, const char *rest)
{
	unsigned int index = ckc_sessions.count;
	CUresult err = open_one(session_at(index), index, entry, rest, false);

	ckc_sessions.count += !err;
	return err;
}

/* One server is missing: give up the others, which the program will not use. */
static void give_up(void)
{
	for (unsigned int i = 0; i < ckc_sessions.count; i++)
		ckc_session_leave(ckc_sessions.list[i]);
}

static CUresult open_list(const struct ck_server_list *list)
{
	bool any = list->count > 1 && goes_on_without();
	const char *rest = any ? "; the pool goes on without it" : NULL;
	CUresult err = CUDA_SUCCESS, last = CUDA_SUCCESS;

	for (unsigned int i = 0; i < list->count && !err; i++) {
		err = open_next(&list->entries[i], rest);
		if (any && err) {
			last = err;
			err = CUDA_SUCCESS;
		}
	}
	if (any && ckc_sessions.count == 0)
		err = last;
	if (err)
		give_up();
	return err;
}

/*
 * The same where another choice follows: all servers, or none. A session that has been given up
 * cannot begin again. So the process's first one, which has the objects of all, is the last to
 * begin.
 */
static CUresult open_whole(const struct ck_server_list *list)
{
	CUresult err = CUDA_SUCCESS;
	unsigned int i = list->count;

	while (i > 0 && !err) {
		i--;
		err = open_one(i > 0 ? ckc_client_create() : ckc_client_root(), i,
			       &list->entries[i], "; trying the next choice", true);
	}
	if (!err) {
		ckc_sessions.count = list->count;
		return CUDA_SUCCESS;
	}
	while (++i < list->count)
		ckc_session_leave(ckc_sessions.list[i]);
	memset(ckc_sessions.list, 0, sizeof(ckc_sessions.list));
	return err;
}

/* Open one choice of several, @text, or the only one. */
static CUresult open_choice(const char *text, struct ck_server_list *list, bool more)
{
	char why[CK_ADDRESS_WHY];

	if (ck_servers_parse(text, list, why) == 0)
		return more ? open_whole(list) : open_list(list);
	ck_err("REMOTE_GPU_ADDRESS=%s: %s", text, why);
	return CUDA_ERROR_NO_DEVICE;
}

/* Open the choices of @text in turn, until one has all sessions. */
static CUresult open_choices(char *text, struct ck_server_list *list)
{
	CUresult err;

	for (;;) {
		char *next = text ? strchr(text, CK_SERVERS_OR) : NULL;

		if (next)
			*next++ = '\0';
		err = open_choice(text, list, next != NULL);
		if (!err || !next)
			return err;
		text = next;
	}
}

static CUresult open_all(void)
{
	const char *set = ck_env_string("REMOTE_GPU_ADDRESS");
	struct ck_server_list *list = malloc(sizeof(*list));
	char *text = set ? strdup(set) : NULL;
	CUresult err = CUDA_ERROR_OUT_OF_MEMORY;

	if (list && (text || !set))
		err = open_choices(text, list);
	free(text);
	free(list);
	if (!err && ckc_sessions.count > 1) {
		ckc_uuid_alias_make();
		ckc_many = ckc_slow_entry = true;
		for (unsigned int i = 0; i < ckc_sessions.count; i++)
			ckc_sessions.list[i]->unordered_streams = true; /* those of two servers */
	}
	return err;
}

CUresult ckc_servers_open(void)
{
	struct ckc_client *root = ckc_client_root();
	int cancel;
	CUresult err;

	/* a session that is ready, lost, or of a parent, answers by itself */
	if (!ckc_many && !ckc_sessions.failed && atomic_load(&root->state) != CK_STATE_FRESH)
		return ckc_session_open(root);
	cancel = ck_lock_uncancelled(&ckc_sessions.lock);
	if (ckc_sessions.list[0] != root) /* another session follows the first one */
		ckc_sessions.count = 0;
	if (ckc_sessions.count == 0 && !ckc_sessions.failed)
		ckc_sessions.failed = open_all();
	err = ckc_sessions.failed;
	ck_unlock_uncancelled(&ckc_sessions.lock, cancel);
	if (!err && ckc_many) {
		ckc_route_living();
		err = ckc_session_open(ckc_client_current());
	}
	return err;
}
