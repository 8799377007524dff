/*
 * emu/core/call_gate.c - see call_gate.h.
 *
 * A caller counts itself, then looks whether it is closed; who closes it does so first, then looks
 * at the count. Both orders are sequentially consistent, so one of the two sees the other.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "emu/core/call_gate.h"
#include "emu/core/emu.h"
#include "emu/core/locks.h"
#include "util/wait.h"

static _Atomic bool closed;
static atomic_uint inside;
static struct ck_mutex lock = CK_MUTEX(CK_RANK_TURNSTILE);
static struct ck_cond opened, emptied;
static _Thread_local unsigned int depth;

/* One fewer inside: whoever closes it may wait for that. */
static void count_out(void)
{
	if (atomic_fetch_sub(&inside, 1) != 1 || !atomic_load(&closed))
		return;
	ck_lock(&lock);
	ck_cond_broadcast(&emptied);
	ck_unlock(&lock);
}

void ck_emu_call_gate_enter(void)
{
	if (depth++ > 0 || ck_emu_thread_in_callback())
		return;
	for (;;) {
		atomic_fetch_add(&inside, 1);
		if (likely(!atomic_load(&closed)))
			return;
		count_out();
		ck_lock(&lock);
		while (atomic_load(&closed))
			ck_cond_wait(&opened, &lock);
		ck_unlock(&lock);
	}
}

void ck_emu_call_gate_leave(void)
{
	if (--depth == 0 && !ck_emu_thread_in_callback())
		count_out();
}

bool ck_emu_call_gate_close(const struct timespec *until)
{
	int ret = 0;

	ck_lock(&lock);
	atomic_store(&closed, true);
	while (atomic_load(&inside) > 0 && ret == 0) {
		if (until)
			ret = ck_cond_timedwait(&emptied, &lock, until);
		else
			ck_cond_wait(&emptied, &lock);
	}
	ck_unlock(&lock);
	if (ret == 0)
		return true;
	ck_emu_call_gate_open();
	return false;
}

void ck_emu_call_gate_open(void)
{
	ck_lock(&lock);
	atomic_store(&closed, false);
	ck_cond_broadcast(&opened);
	ck_unlock(&lock);
}
