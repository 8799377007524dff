/*
 * client/link/session_create.c - create sessions: the process's first one, and further ones.
 */
#include <pthread.h>
#include <stdlib.h>

#include "client/link/client.h"
#include "client/link/hooks.h"

struct ckc_client *ckc_client_default;
__thread struct ckc_client *ckc_thread_client
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Static: calls may come before cuInit, and this must not fail. */
static struct ckc_client first;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_client(struct ckc_client *c)
{
	*c = (struct ckc_client){
		.connection = {.set_up_lock = CK_MUTEX(CK_RANK_SET_UP),
			       .images_lock = CK_MUTEX(CK_RANK_IMAGES)},
		.keeping = {.names_lock = CK_MUTEX(CK_RANK_NAMES)},
		.loss = {.lock = CK_MUTEX(CK_RANK_LOSS)},
		.lanes = {.lock = CK_MUTEX(CK_RANK_LANES)},
		.command = {.lock = CK_MUTEX(CK_RANK_COMMAND)},
		.deliveries = {.lock = CK_MUTEX(CK_RANK_DELIVERIES),
			       .starting_lock = CK_MUTEX(CK_RANK_STARTING)},
		.watches = {.lock = CK_MUTEX(CK_RANK_STATUS), .dear_ns = CKC_DEAR_NS},
		.suspicion = {.lock = CK_MUTEX(CK_RANK_ALIVE)},
		.spreading = {.one_lock = CK_MUTEX(CK_RANK_SPREAD_ONE),
			      .lock = CK_MUTEX(CK_RANK_SPREAD)},
		.packing = {.lock = CK_MUTEX(CK_RANK_PACKING)},
		.answers = {.lock = PTHREAD_RWLOCK_INITIALIZER},
		.named = {.lock = CK_MUTEX(CK_RANK_NAMED)},
	};
}

static void begin_first(void)
{
	init_client(&first);
	ckc_each_hook(part, h)
	{
		*(void **)((char *)&first + h->slot) = h->first;
		h->begin(h->first);
	}
	__atomic_store_n(&ckc_client_default, &first, __ATOMIC_RELEASE);
}

struct ckc_client *ckc_client_first(void)
{
	pthread_once(&once, begin_first);
	return ckc_client_default;
}

struct ckc_client *ckc_client_create(void)
{
	struct ckc_client *c = malloc(sizeof(*c));
	bool whole = c != NULL;

	if (!c)
		return NULL;
	init_client(c);
	ckc_each_hook(part, h)
	{
		void *part = calloc(1, h->size);

		*(void **)((char *)c + h->slot) = part;
		whole = whole && part;
		if (part)
			h->begin(part);
	}
	if (whole)
		return c;
	ckc_each_hook(part, h) free(*(void **)((char *)c + h->slot));
	free(c);
	return NULL;
}
