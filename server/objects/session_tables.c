/*
 * server/objects/session_tables.c - make and free the tables of a session, one per folder.
 */
#include <errno.h>
#include <stdlib.h>

#include "server/copy/staging.h"
#include "server/session/locks.h"
#include "server/graphs/mirror.h"
#include "server/memory/delivery.h"
#include "server/memory/memory.h"
#include "server/memory/pinned.h"
#include "server/memory/status.h"
#include "server/memory/texture.h"
#include "server/modules/modcache.h"
#include "server/modules/module.h"
#include "server/session/callback.h"
#include "server/session/output.h"
#include "server/session/session.h"
#include "util/util.h"

/* How long a waiting lane spins before it sleeps. A command's bytes are often just arriving on the
 * other connection, and waking a thread costs more than executing the command. */
#define CK_SPIN_US 100

#define WAIT_MAX_MS 60000 /* a live client asks again; this frees the lane of a dead one */

int ck_session_create(struct ck_modcache *modules, struct ck_output *output, int device_count,
		      struct ck_session **out)
{
	struct ck_session *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_PROGRESS);
	pthread_cond_init(&s->progress, NULL);
	ck_spin_init(&s->spin, CK_SPIN_US);
	atomic_init(&s->awaited, UINT64_MAX);
	s->device_count = device_count;
	s->stir_fd = -1;
	s->wait_max_ms = WAIT_MAX_MS;
	if (ck_handles_create(&s->handles) < 0 || ck_memory_create(&s->memory) < 0 ||
	    ck_staging_create(&s->staging) < 0 || ck_assembly_create(&s->assembly) < 0 ||
	    ck_textures_create(&s->textures) < 0 ||
	    ck_callbacks_create(&s->callbacks) < 0 || ck_mirrors_create(&s->mirrors) < 0 ||
	    ck_pinned_create(&s->pinned) < 0 || ck_deliveries_create(&s->deliveries) < 0 ||
	    ck_status_create(&s->status) < 0) {
		ck_session_destroy(s);
		return -ENOMEM;
	}
	s->modules = modules;
	s->output = output;
	*out = s;
	return 0;
}

void ck_session_destroy(struct ck_session *s)
{
	if (!s)
		return;
	ck_status_destroy(s->status);
	ck_callbacks_destroy(s->callbacks);
	ck_mirrors_destroy(s->mirrors);
	ck_pinned_destroy(s->pinned);
	ck_deliveries_destroy(s->deliveries);
	ck_output_destroy(s->output);
	ck_assembly_destroy(s->assembly);
	ck_staging_destroy(s->staging);
	ck_textures_destroy(s->textures);
	ck_memory_destroy(s->memory);
	ck_handles_destroy(s->handles);
	ck_modcache_close(s->modules);
	pthread_cond_destroy(&s->progress);
	ck_mutex_destroy(&s->lock);
	free(s);
}
