/*
 * server/objects/session_tables.c - make and free the tables of a session, one per folder.
 */
#include <errno.h>
#include <stdlib.h>

#include "server/copy/staging.h"
#include "server/modules/launch_pace.h"
#include "server/direct/direct.h"
#include "server/graphs/mirror.h"
#include "server/memory/delivery.h"
#include "server/evacuation/evacuation.h"
#include "server/memory/lease.h"
#include "server/memory/memory.h"
#include "server/memory/pinned.h"
#include "server/memory/status.h"
#include "server/memory/texture.h"
#include "server/modules/modcache.h"
#include "server/modules/module.h"
#include "server/nccl/nccl.h"
#include "server/session/callback.h"
#include "server/session/locks.h"
#include "server/session/output.h"
#include "server/session/session.h"
#include "server/store/chunk_store.h"
#include "server/store/chunk_writer.h"
#include "server/store/held_chunks.h"
#include "server/store/start_list.h"
#include "util/util.h"

/* How long a waiting lane spins before it sleeps. A command's bytes are often just arriving on the
 * other connection, and waking a thread costs more than executing the command. */
#define CK_SPIN_US 100

#define WAIT_MAX_MS 60000 /* a live client asks again; this frees the lane of a dead one */

int cks_session_create(struct cks_modcache *modules, struct ck_output *output, int device_count,
		       struct cks_session **out)
{
	struct cks_session *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_PROGRESS);
	s->contexts = (struct ck_mutex)CK_MUTEX(CK_RANK_CONTEXTS);
	s->captures = (struct ck_mutex)CK_MUTEX(CK_RANK_CAPTURES);
	ck_spin_init(&s->spin, CK_SPIN_US);
	atomic_init(&s->awaited, UINT64_MAX);
	s->device_count = device_count;
	s->wake_fd = -1;
	cks_gate_init(&s->gate);
	cks_stream_holds_init(&s->holds);
	cks_faults_init(&s->faults);
	s->wait_max_ms = WAIT_MAX_MS;
	if (cks_handles_create(&s->handles) < 0 || cks_memory_create(&s->memory) < 0 ||
	    cks_leases_create(&s->leases) < 0 || cks_evacuation_create(&s->evacuation) < 0 ||
	    cks_staging_create(&s->staging) < 0 || cks_launch_pace_create(&s->launch_pace) < 0 ||
	    cks_assembly_create(&s->assembly) < 0 || cks_textures_create(&s->textures) < 0 ||
	    cks_callbacks_create(&s->callbacks) < 0 || cks_mirrors_create(&s->mirrors) < 0 ||
	    cks_pinned_create(&s->pinned) < 0 || cks_shadows_create(&s->shadows) < 0 ||
	    cks_deliveries_create(&s->deliveries) < 0 || cks_status_create(&s->status) < 0 ||
	    cks_direct_create(s, &s->direct) < 0 || cks_nccl_create(&s->nccl) < 0) {
		cks_session_destroy(s);
		return -ENOMEM;
	}
	s->modules = modules;
	s->output = output;
	*out = s;
	return 0;
}

void cks_session_destroy(struct cks_session *s)
{
	if (!s)
		return;
	cks_direct_destroy(s->direct);
	cks_status_destroy(s->status);
	cks_nccl_destroy(s->nccl);
	cks_callbacks_destroy(s->callbacks);
	cks_mirrors_destroy(s->mirrors);
	cks_shadows_destroy(s->shadows);
	cks_pinned_destroy(s->pinned);
	cks_deliveries_destroy(s->deliveries);
	cks_output_destroy(s->output);
	cks_assembly_destroy(s->assembly);
	cks_staging_destroy(s->staging);
	cks_launch_pace_destroy(s->launch_pace);
	cks_textures_destroy(s->textures);
	cks_memory_destroy(s->memory);
	cks_leases_destroy(s->leases);
	cks_evacuation_destroy(s->evacuation);
	cks_handles_destroy(s->handles);
	cks_modcache_close(s->modules);
	cks_held_destroy(s->held);
	cks_chunk_writer_destroy(s->writer);
	cks_start_list_close(s->start);
	cks_chunk_store_destroy(s->store);
	free(atomic_load(&s->commands));
	ck_cond_destroy(&s->progress);
	cks_gate_fini(&s->gate);
	cks_stream_holds_fini(&s->holds);
	cks_faults_fini(&s->faults);
	ck_mutex_destroy(&s->lock);
	ck_mutex_destroy(&s->contexts);
	ck_mutex_destroy(&s->captures);
	free(s);
}
