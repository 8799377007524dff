/*
 * server/session/session.c - state shared by a session's threads: its progress, its first error.
 */
#include <sys/eventfd.h>

#include "server/session/session.h"
#include "util/util.h"

#define BESIDE_MOST (1u << 20) /* far more than a client can have sent */

bool cks_session_fail(struct cks_session *s, CUresult err)
{
	int none = 0;

	return atomic_compare_exchange_strong(&s->async_error, &none, (int)err);
}

/*
 * Both sides are sequentially consistent: either a lane that has announced its number sees the new
 * one, or the command thread sees the announcement. Wake a waiter once, on its own command: waking
 * it on every command costs more than a launch.
 */
void cks_session_executed(struct cks_session *s, uint64_t seq)
{
	atomic_store(&s->executed, seq);
	if (atomic_load(&s->awaited) > seq)
		return;
	ck_lock(&s->lock);
	atomic_store(&s->awaited, UINT64_MAX);
	ck_cond_broadcast(&s->progress);
	ck_unlock(&s->lock);
}

void cks_session_wake_watch(struct cks_session *s)
{
	atomic_store(&s->used, true);
	if (s->wake_fd >= 0)
		eventfd_write(s->wake_fd, 1);
}

void cks_session_wait(struct cks_session *s, uint64_t seq)
{
	struct ck_spin_turn turn = ck_spin_begin(&s->spin);

	do {
		if (atomic_load_explicit(&s->executed, memory_order_acquire) >= seq)
			goto done;
	} while (ck_spin_again(&turn));
	ck_lock(&s->lock);
	for (;;) { /* all that are woken say again what they wait for */
		atomic_store(&s->awaited, ck_min(atomic_load(&s->awaited), seq));
		if (atomic_load(&s->executed) >= seq)
			break;
		ck_cond_wait(&s->progress, &s->lock);
	}
	ck_unlock(&s->lock);
done:
	ck_spin_end(&turn);
}

void cks_session_beside(struct cks_session *s, CUresult err)
{
	if (err)
		cks_session_fail(s, err);
	ck_lock(&s->lock);
	atomic_fetch_add(&s->beside, 1);
	ck_cond_broadcast(&s->progress);
	ck_unlock(&s->lock);
}

bool cks_session_join(struct cks_session *s, uint64_t count)
{
	bool possible;

	ck_lock(&s->lock);
	possible = count <= atomic_load(&s->beside) + BESIDE_MOST;
	while (possible && atomic_load(&s->beside) < count)
		ck_cond_wait(&s->progress, &s->lock);
	ck_unlock(&s->lock);
	return possible;
}

const char *cks_error_name(CUresult err)
{
	switch (err) {
#define CK_ERROR(name, value, text)                                                                \
	case name:                                                                                 \
		return #name;
#include "cuda/errors.def"
#undef CK_ERROR
	}
	return "unknown CUDA error";
}
