/*
 * client/wire/servers.c - connecting to the servers of REMOTE_GPU_ADDRESS; see servers.h.
 */
#include <stdlib.h>
#include <string.h>

#include "client/wire/apart.h"
#include "client/wire/dial.h"
#include "client/wire/servers.h"
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

/* Connect to one more server. */
static CUresult open_next(const struct ck_server_entry *entry, bool optional)
{
	struct ckc_client *c = session_at(ckc_sessions.count);
	struct ck_server_entry *own = malloc(sizeof(*own));
	CUresult err = c && own ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

	if (!err) {
		*own = *entry;
		c->index = ckc_sessions.count;
		c->connection.wish = own->address;
		c->connection.optional = optional;
		c->connection.failed = CUDA_SUCCESS; /* of the server that this one follows */
		ckc_sessions.list[ckc_sessions.count] = c;
		err = ckc_session_open(c);
	}
	if (err) {
		if (c)
			c->connection.wish = NULL;
		free(own);
		return err;
	}
	ckc_sessions.entries[ckc_sessions.count++] = own;
	return CUDA_SUCCESS;
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
	CUresult err = CUDA_SUCCESS, last = CUDA_SUCCESS;

	for (unsigned int i = 0; i < list->count && !err; i++) {
		err = open_next(&list->entries[i], any);
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

static CUresult open_all(void)
{
	const char *text = ck_env_string("REMOTE_GPU_ADDRESS"), *why = "";
	struct ck_server_list *list = malloc(sizeof(*list));
	CUresult err;

	if (!list)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (ck_servers_parse(text, list, &why) < 0) {
		ck_err("REMOTE_GPU_ADDRESS=%s: %s", text, why);
		err = CUDA_ERROR_NO_DEVICE;
	} else {
		err = open_list(list);
	}
	free(list);
	if (!err && ckc_sessions.count > 1) {
		ckc_apart_make();
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
