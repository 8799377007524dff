/*
 * client/link/route.c - which server a message goes to; see servers.h.
 */
#include <string.h>

#include "client/link/session_list.h"
#include "rpc/proc.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

/* The session of the objects that the message names; NULL: it names none. False: they are on
 * different servers. */
static bool session_of_objects(uint32_t proc, const void *args, struct ckc_client **c,
			       struct ckc_context **context)
{
	for (const struct ck_field *f = ck_procs[proc].in; f && f->kind != CK_FIELD_END; f++) {
		struct ckc_context *own = NULL;
		struct ckc_client *of;
		uint64_t id;

		if (f->kind != CK_FIELD_ID)
			continue;
		memcpy(&id, (const char *)args + f->offset, sizeof(id));
		of = ckc_object_session(id, &own);
		if (of && *c && of != *c)
			return false;
		if (of)
			*c = of;
		if (of && own)
			*context = own;
	}
	return true;
}

/* A context that the server of @c knows: any will do, as the message does not depend on which. */
static uint64_t context_on(const struct ckc_client *c)
{
	const struct ckc_client *root = ckc_client_root();

	for (int i = 0; i < root->gpu_count; i++) {
		const struct ckc_context *primary = root->gpus[i].primary;

		if (primary->client == c && primary->active)
			return primary->object.id;
	}
	return 0;
}

struct ckc_client *ckc_route_message(uint32_t proc, void *args)
{
	struct ckc_client *c = NULL, *given = NULL;
	struct ckc_context *context = NULL, *current = ckc_context_current();
	ck_head *head = args;

	if (!session_of_objects(proc, args, &c, &context)) {
		if (!__atomic_exchange_n(&ckc_sessions.told[proc], true, __ATOMIC_RELAXED))
			ck_warn("%s: its objects are on different servers", ck_procs[proc].name);
		return NULL;
	}
	if (head->ctx)
		given = ckc_object_session(head->ctx, &current);
	if (!c && given && ckc_context_current() != current)
		c = given; /* of purpose */
	if (!c)
		c = ckc_client_current();
	if (given && given != c)
		head->ctx = context && context->active ? context->object.id : context_on(c);
	ckc_route(c);
	return c;
}
