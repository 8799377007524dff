/*
 * client/link/session_list.c - the list of the process's sessions, and the calling thread's one;
 * see servers.h.
 */
#include <string.h>

#include "client/link/session_list.h"

_Atomic bool ckc_many, ckc_slow_entry;
struct ckc_sessions ckc_sessions = {.lock = CK_MUTEX(CK_RANK_SERVERS)};

__thread struct ckc_context *ckc_thread_context __attribute__((tls_model("initial-exec")));
/* Of a thread of the client's own: the session that it serves. */
static __thread struct ckc_client *serves __attribute__((tls_model("initial-exec")));

unsigned int ckc_servers_count(void)
{
	return ckc_sessions.count > 0 ? ckc_sessions.count : 1;
}

struct ckc_client *ckc_server_session(unsigned int index)
{
	return likely(!ckc_many) || index >= ckc_sessions.count ? ckc_client_root()
								: ckc_sessions.list[index];
}

unsigned int ckc_server_devices(unsigned int index, const unsigned int **devices)
{
	const struct ck_server_entry *e =
		index < ckc_sessions.count ? ckc_sessions.entries[index] : NULL;

	*devices = e ? e->devices : NULL;
	return e ? e->count : 0;
}

void ckc_servers_forget(void)
{
	ck_mutex_renew(&ckc_sessions.lock);
	memset(ckc_sessions.list, 0, sizeof(ckc_sessions.list));
	ckc_sessions.count = 0;
	ckc_sessions.failed = CUDA_SUCCESS;
	ckc_many = false;
	ckc_thread_client = NULL;
}

void ckc_route_living(void)
{
	unsigned int i = 0;

	while (i < ckc_sessions.count &&
	       atomic_load(&ckc_sessions.list[i]->state) != CK_STATE_READY)
		i++;
	ckc_route(ckc_sessions.list[i < ckc_sessions.count ? i : 0]);
}

void ckc_route_home(void)
{
	const struct ckc_context *context = ckc_context_current();

	if (context)
		ckc_route(context->client);
	else if (serves)
		ckc_route(serves);
	else
		ckc_route_living();
}

void ckc_route_serve(struct ckc_client *c)
{
	serves = c;
	ckc_route(c);
}
