/*
 * loader/callback.c - functions of the application that a lower half calls.
 *
 * The lower half is given one of our entries (entry.S) in place of the function. On a thread of
 * the application it puts that thread's own FS in place for the call. On a thread that the lower
 * half made there is no thread block of the application: the call is handed to a service thread of
 * the upper half, and waited for. Calls that this thread makes meanwhile run on the waiting
 * thread's block, so that the half knows which of its threads they belong to.
 */
#include "loader/half.h"
#include "loader/window.h"

#define CALLBACKS 4096
#define ENTRY 16

/* As callback_common in entry.S leaves it on the stack. */
struct call {
	long a, b, c, d, e, f;
	uint64_t number, frame, back; /* the caller's frame, and where it goes on */
	long stack[2];
};

struct entry {
	lh_target target;
	void *user;
	uint32_t half;
};

/* One call of a lower half's own thread; it lives on that thread's stack. */
struct order {
	struct order *next;
	const struct entry *entry;
	const struct call *call;
	uint64_t fs; /* the thread's own */
	long ret;
	uint32_t done; /* futex */
};

static struct entry entries[CALLBACKS];
static uint32_t lock;

static struct {
	uint32_t lock;
	uint32_t posted; /* futex: counts orders */
	uint32_t idle;	 /* service threads that wait */
	struct order *first, **last;
} orders = {.last = &orders.first};

extern char ck_callback_entries[];
long ck_callback(const struct call *call);

/* Open addressing over all entries: the same pair finds the same place. */
void *ck_callback_get(unsigned int half, lh_target target, void *user)
{
	uint64_t mask = ck_signals_block(), hash = ((uint64_t)target >> 4) * 31 + (uint64_t)user;
	void *found = NULL;

	hash ^= hash >> 17;
	ck_lock(&lock);
	for (uint32_t i = 0; i < CALLBACKS && !found; i++) {
		uint32_t at = (uint32_t)(hash + i) % CALLBACKS;
		struct entry *e = &entries[at];

		if (!e->target)
			*e = (struct entry){target, user, half};
		if (e->target == target && e->user == user && e->half == half)
			found = ck_callback_entries + (size_t)at * ENTRY;
	}
	ck_unlock(&lock);
	ck_signals_restore(mask);
	return found;
}

int ck_callback_of(const void *address, lh_target *target, void **user)
{
	size_t offset = (size_t)((const char *)address - ck_callback_entries);

	if ((const char *)address < ck_callback_entries || offset >= CALLBACKS * ENTRY ||
	    offset % ENTRY || !entries[offset / ENTRY].target)
		return -1;
	*target = entries[offset / ENTRY].target;
	*user = entries[offset / ENTRY].user;
	return 0;
}

static long run_callback(const struct entry *e, const struct call *c)
{
	return e->target(c->a, c->b, c->c, c->d, c->e, c->f, e->user, c->stack);
}

/* --- calls from a lower half's own threads */

static long forward_call(const struct entry *e, const struct call *c, uint64_t fs)
{
	struct order order = {.entry = e, .call = c, .fs = fs};

	ck_lock(&orders.lock);
	*orders.last = &order;
	orders.last = &order.next;
	orders.posted++;
	ck_unlock(&orders.lock);
	sys3(__NR_futex, &orders.posted, FUTEX_WAKE, 1);
	while (!__atomic_load_n(&order.done, __ATOMIC_ACQUIRE))
		sys4(__NR_futex, &order.done, FUTEX_WAIT, 0, NULL);
	return order.ret;
}

/* The next order, and whether no thread waits for another any more. */
static struct order *next_order(bool *last_one)
{
	for (;;) {
		struct order *o;
		uint32_t posted;

		ck_lock(&orders.lock);
		o = orders.first;
		posted = orders.posted;
		if (o) {
			orders.first = o->next;
			if (!o->next)
				orders.last = &orders.first;
			*last_one = --orders.idle == 0;
			ck_unlock(&orders.lock);
			return o;
		}
		ck_unlock(&orders.lock);
		sys4(__NR_futex, &orders.posted, FUTEX_WAIT, posted, NULL);
	}
}

/* A function that blocks must hold up no other: one thread more than are busy waits. */
void ck_callback_serve(void (*more)(void))
{
	for (;;) {
		struct order *o;
		bool last_one;

		ck_lock(&orders.lock);
		orders.idle++;
		ck_unlock(&orders.lock);
		o = next_order(&last_one);
		if (last_one)
			more();
		ck_thread_lend(o->entry->half, o->fs);
		o->ret = run_callback(o->entry, o->call);
		ck_thread_lend(o->entry->half, 0);
		__atomic_store_n(&o->done, 1, __ATOMIC_RELEASE);
		sys3(__NR_futex, &o->done, FUTEX_WAKE, 1);
	}
}

long ck_callback(const struct call *call)
{
	const struct entry *e = &entries[call->number & 0xffffffff];
	uint64_t fs = fs_get();
	struct lh_thread *t = ck_thread_here(fs, (int)e->half);
	long ret;

	/* called by the upper half itself, which got the address back */
	if (ck_window_of(fs) == 0)
		return run_callback(e, call);
	if (!t || !t->fs[0])
		return forward_call(e, call, fs);
	fs_set(t->fs[0]);
	ret = run_callback(e, call);
	fs_set(fs);
	return ret;
}
