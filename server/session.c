/*
 * server/session.c - what a session's threads share: its tables, its progress, its first error.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "server/callback.h"
#include "server/delivery.h"
#include "server/memory.h"
#include "server/mirror.h"
#include "server/modcache.h"
#include "server/module.h"
#include "server/output.h"
#include "server/pinned.h"
#include "server/session.h"
#include "server/staging.h"
#include "server/status.h"
#include "server/texture.h"
#include "util/util.h"

/* Of looking before a waiting lane sleeps: a command's bytes are often just arriving on the other
 * connection, and waking a thread costs more than carrying the command out. */
#define CK_SPIN_US 100

#define WAIT_MAX_MS 60000 /* a client asks again: a lane is not kept for ever by one that is gone */

int ck_session_create(struct ck_modcache *modules, struct ck_output *output, int device_count,
		      struct ck_session **out)
{
	struct ck_session *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	pthread_mutex_init(&s->lock, NULL);
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
	pthread_mutex_destroy(&s->lock);
	free(s);
}

bool ck_session_fail(struct ck_session *s, CUresult err)
{
	int none = 0;

	return atomic_compare_exchange_strong(&s->async_error, &none, (int)err);
}

/*
 * Both sides are sequentially consistent: either the lane sees the new number when it looks after
 * having said what it waits for, or the command thread sees what it waits for. Who waits is woken once, by
 * the command that it waits for: waking it at each before that would cost more than a launch does.
 */
void ck_session_executed(struct ck_session *s, uint64_t seq)
{
	atomic_store(&s->executed, seq);
	if (atomic_load(&s->awaited) > seq)
		return;
	pthread_mutex_lock(&s->lock);
	atomic_store(&s->awaited, UINT64_MAX);
	pthread_cond_broadcast(&s->progress);
	pthread_mutex_unlock(&s->lock);
}

void ck_session_stir_up(struct ck_session *s)
{
	atomic_store(&s->stirred, true);
	if (s->stir_fd >= 0)
		eventfd_write(s->stir_fd, 1);
}

void ck_session_wait(struct ck_session *s, uint64_t seq)
{
	struct ck_spin_turn turn = ck_spin_begin(&s->spin);

	do {
		if (atomic_load_explicit(&s->executed, memory_order_acquire) >= seq)
			goto done;
	} while (ck_spin_again(&turn));
	pthread_mutex_lock(&s->lock);
	for (;;) {	/* all that are woken say again what they wait for */
		atomic_store(&s->awaited, ck_min(atomic_load(&s->awaited), seq));
		if (atomic_load(&s->executed) >= seq)
			break;
		pthread_cond_wait(&s->progress, &s->lock);
	}
	pthread_mutex_unlock(&s->lock);
done:
	ck_spin_end(&turn);
}

const char *ck_error_name(CUresult err)
{
	switch (err) {
#define CK_ERROR(name, value, text)                                                               \
	case name:                                                                                \
		return #name;
#include "cuda/errors.def"
#undef CK_ERROR
	}
	return "unknown CUDA error";
}
