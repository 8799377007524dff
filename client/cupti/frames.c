/*
 * client/cupti/frames.c - the calls that a thread is in: of the driver (build/gen/watched.c), of the runtime (runtime.c), or of
 * the driver within one of the runtime, which is then a part of it and has no record.
 *
 * A call gets its number when it begins. Each message that is sent within it is linked to that number, and by that the work
 * of the GPU, whose records have the message's number on the server.
 */
#include <errno.h>
#include <sys/mman.h>

#include "client/cupti/cupti.h"
#include "client/wire/hooks.h"
#include "client/wire/profile.h"
#include "cricket.h"

#define NESTED 8
#define LINKS (1u << 21) /* messages before the last flush whose calls are known */

struct frame {
	uint32_t domain, call, number;
	uint64_t began;
};

static __thread struct frame frames[NESTED] __attribute__((tls_model("initial-exec")));
static __thread unsigned int depth __attribute__((tls_model("initial-exec")));

/* Has the program asked for no records of this call? */
static bool is_left_out(const struct ckc_cupti *s, uint32_t domain, uint32_t call)
{
	const _Atomic uint64_t *bits =
		domain == CUPTI_CB_DOMAIN_DRIVER_API ? s->left_out_driver : s->left_out_runtime;

	return call < CKC_CUPTI_CALLS && (atomic_load(&bits[call / 64]) >> call % 64 & 1);
}

void ckc_cupti_enter(uint32_t domain, uint32_t call)
{
	static _Atomic uint32_t last;

	if (depth == NESTED)
		return;
	frames[depth] = (struct frame){
		.domain = domain,
		.call = call,
		.number = depth > 0 ? frames[0].number : atomic_fetch_add(&last, 1) + 1,
		.began = ckc_cupti_clock(),
	};
	depth++;
}

static void note(struct ckc_cupti *s, const struct frame *f, uint32_t result)
{
	struct ck_cupti_api api = {
		.kind = f->domain == CUPTI_CB_DOMAIN_DRIVER_API ? CUPTI_ACTIVITY_KIND_DRIVER
								: CUPTI_ACTIVITY_KIND_RUNTIME,
		.call = f->call,
		.start = f->began,
		.correlation = f->number,
		.result = result,
	};

	if (depth == 0 && ckc_cupti_wants(s, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION))
		ckc_cupti_note_pushed(s, f->number);
	if ((depth > 0 && api.kind == CUPTI_ACTIVITY_KIND_DRIVER) ||
	    !ckc_cupti_wants(s, api.kind) || is_left_out(s, f->domain, f->call))
		return;
	api.end = ckc_cupti_clock();
	ckc_cupti_note_api(s, &api);
}

void ckc_cupti_leave(uint32_t domain, uint32_t call, uint32_t result)
{
	unsigned int at = depth;

	/* one that began before the profile has no frame; one that a longjmp has left is in front */
	while (at > 0 && (frames[at - 1].domain != domain || frames[at - 1].call != call))
		at--;
	if (at == 0)
		return;
	depth = at - 1;
	note(ckc_client_current()->cupti, &frames[depth], result);
}

static void on_enter(const struct ckc_call *call)
{
	ckc_cupti_enter(CUPTI_CB_DOMAIN_DRIVER_API, call->number);
}

static void on_leave(const struct ckc_call *call)
{
	ckc_cupti_leave(CUPTI_CB_DOMAIN_DRIVER_API, call->number, (uint32_t)call->result);
}
CK_HOOK(call, on_leave, on_enter, on_leave);

/* --- messages */

/* Pages of it are used as numbers come up. */
int ckc_cupti_links_make(struct ckc_cupti *s)
{
	void *links;

	if (s->links)
		return 0;
	links = mmap(NULL, LINKS * sizeof(*s->links), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (links == MAP_FAILED)
		return -ENOMEM;
	__atomic_store_n(&s->links, links, __ATOMIC_RELEASE);
	return 0;
}

static void link_message(struct ckc_cupti *s, uint64_t id)
{
	_Atomic uint64_t *links = __atomic_load_n(&s->links, __ATOMIC_ACQUIRE);
	uint32_t message = ckc_cupti_message_number(id);

	if (links && depth > 0)
		atomic_store_explicit(&links[message % LINKS],
				      (uint64_t)message << 32 | frames[0].number,
				      memory_order_relaxed);
}

uint32_t ckc_cupti_call_of(const struct ckc_cupti *s, uint64_t id)
{
	uint32_t message = ckc_cupti_message_number(id);
	uint64_t link = s->links ? atomic_load(&s->links[message % LINKS]) : 0;

	return link >> 32 == message ? (uint32_t)link : 0;
}

static void note_message(struct ckc_cupti *s, const struct ckc_message *m)
{
	struct ckc_cupti_message record = {
		.kind = CKC_CUPTI_MESSAGE,
		.proc = m->proc,
		.start = m->began,
		.end = ckc_cupti_clock(),
		.thread = ckc_cupti_thread(),
		.sent = m->sent,
		.received = m->received,
		.result = (uint32_t)m->err,
		.waits = m->waits,
	};

	ckc_cupti_note(s, &record, sizeof(record));
	atomic_fetch_add_explicit(&s->own.messages, 1, memory_order_relaxed);
}

/* Messages of the profile itself do not belong to it. */
static bool is_ours(uint32_t proc)
{
	return proc == CK_PROC_profile || proc == CK_PROC_profile_clock ||
	       proc == CK_PROC_profile_fetch;
}

static void on_message(const struct ckc_message *m)
{
	struct ckc_cupti *s = ckc_client_current()->cupti;

	if (is_ours(m->proc))
		return;
	link_message(s, m->id);
	if (ckc_cupti_wants(s, CKC_CUPTI_MESSAGE))
		note_message(s, m);
}
CK_HOOK(message, on_message, ckc_cupti_clock, on_message);
