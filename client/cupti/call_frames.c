/*
 * client/cupti/call_frames.c - the calls that a thread is in: of the driver (build/gen/watched.c),
 * of the runtime (runtime.c), or of the driver within one of the runtime, which is then a part of
 * it and has no record.
 *
 * A call gets its number when it begins. Each message that is sent within it is linked to that
 * number, and by that the work of the GPU, whose records have the message's number on the server.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "client/cupti/cupti.h"
#include "client/link/hooks.h"
#include "client/wire/profile.h"
#include "cricket.h"
#include "rpc/proc.h"

#define LINKS (1u << 21) /* messages before the last flush whose calls are known */

/* Has the program asked for no records of this call? */
static bool is_left_out(const struct ckc_cupti *s, uint32_t domain, uint32_t call)
{
	const _Atomic uint64_t *bits =
		domain == CUPTI_CB_DOMAIN_DRIVER_API ? s->left_out_driver : s->left_out_runtime;

	return call < CKC_CUPTI_CALLS && (atomic_load(&bits[call / 64]) >> call % 64 & 1);
}

/* The new frame; NULL: the thread is in too many. */
static struct ckc_cupti_frame *push_frame(uint32_t domain, uint32_t call)
{
	static _Atomic uint32_t last;
	struct ckc_cupti_self *self = ckc_cupti_self();
	struct ckc_cupti_frame *f;

	if (!self || self->depth == CKC_CUPTI_NESTED || self->reports)
		return NULL;
	f = &self->frames[self->depth];
	*f = (struct ckc_cupti_frame){
		.domain = domain,
		.call = call,
		.number = self->depth > 0 ? self->frames[0].number : atomic_fetch_add(&last, 1) + 1,
		.part = self->depth > 0 && domain == CUPTI_CB_DOMAIN_DRIVER_API,
		.began = ckc_cupti_clock(),
	};
	self->depth++;
	return f;
}

/* The frame that has ended; NULL: the call began before the profile. It stays until the next
 * push. */
static struct ckc_cupti_frame *pop_frame(uint32_t domain, uint32_t call)
{
	struct ckc_cupti_self *self = ckc_cupti_self();
	unsigned int at = self ? self->depth : 0;

	if (!self || self->reports)
		return NULL;
	/* one that a longjmp has left may be in front */
	while (at > 0 &&
	       (self->frames[at - 1].domain != domain || self->frames[at - 1].call != call))
		at--;
	if (at == 0)
		return NULL;
	self->depth = at - 1;
	return &self->frames[self->depth];
}

static void record_frame(struct ckc_cupti *s, const struct ckc_cupti_frame *f, uint32_t result)
{
	struct ck_cupti_api api = {
		.kind = f->domain == CUPTI_CB_DOMAIN_DRIVER_API ? CUPTI_ACTIVITY_KIND_DRIVER
								: CUPTI_ACTIVITY_KIND_RUNTIME,
		.call = f->call,
		.start = f->began,
		.correlation = f->number,
		.result = result,
	};

	if (!f->part && ckc_cupti_self()->depth == 0 &&
	    ckc_cupti_wants(s, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION))
		ckc_cupti_note_pushed(s, f->number);
	if (f->part || !ckc_cupti_wants(s, api.kind) || is_left_out(s, f->domain, f->call))
		return;
	api.end = ckc_cupti_clock();
	ckc_cupti_note_api(s, &api);
}

static void report_frame(struct ckc_cupti_frame *f, int site, const struct ckc_call *call)
{
	struct ckc_cupti_report r = {
		.domain = f->domain,
		.call = f->call,
		.site = site,
		.name = call->name,
		.given = call->given,
		.result = site && f->domain == CUPTI_CB_DOMAIN_DRIVER_API
				  ? (void *)(uintptr_t)&call->result
				  : NULL, /* NVIDIA's runtime does not say */
		.data = &f->data,
		.correlation = f->number,
	};

	ckc_cupti_report(&r);
}

static void on_enter(const struct ckc_call *call)
{
	struct ckc_cupti_frame *f = push_frame(CUPTI_CB_DOMAIN_DRIVER_API, call->number);

	if (f && !f->part && unlikely(ckc_client_current()->cupti->reports_driver))
		report_frame(f, 0, call);
}

/* The number of a stream is asked for while there is no frame, so that it is no message of the
 * call. */
static void on_leave(const struct ckc_call *call)
{
	struct ckc_client *c = ckc_client_current();
	struct ckc_cupti *s = c->cupti;
	struct ckc_cupti_frame *f = pop_frame(CUPTI_CB_DOMAIN_DRIVER_API, call->number);

	if (!f)
		return;
	record_frame(s, f, (uint32_t)call->result);
	if (ckc_cupti_wants(s, CUPTI_ACTIVITY_KIND_CONTEXT))
		ckc_cupti_see_context(c);
	if (ckc_cupti_wants(s, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION))
		ckc_cupti_note_sync(c, call, f->began, f->number);
	if (!f->part && unlikely(s->reports_driver))
		report_frame(f, 1, call);
}

static uint32_t call_number(void)
{
	const struct ckc_cupti_self *self = ckc_cupti_self();

	return self && self->depth > 0 ? self->frames[0].number : 0;
}

static void set_helped_number(uint32_t number)
{
	struct ckc_cupti_self *self = ckc_cupti_self();

	if (self)
		self->helped = number;
}
CK_HOOK(call, on_leave, on_enter, on_leave, call_number, set_helped_number);

/* Its name without the version, as CUPTI gives it. */
static void report_runtime(struct ckc_cupti_frame *f, int site)
{
	const char *full = ckc_cupti_call_name(CUPTI_CB_DOMAIN_RUNTIME_API, f->call);
	char name[128] = "";
	struct ckc_call call = {.name = name, .number = f->call};

	if (full)
		snprintf(name, sizeof(name), "%.*s", (int)ckc_cupti_name_length(full), full);
	report_frame(f, site, &call);
}

void ckc_cupti_enter_runtime(uint32_t call)
{
	struct ckc_cupti_frame *f = push_frame(CUPTI_CB_DOMAIN_RUNTIME_API, call);

	if (f && unlikely(ckc_client_current()->cupti->reports_runtime))
		report_runtime(f, 0);
}

void ckc_cupti_leave_runtime(uint32_t call)
{
	struct ckc_cupti_frame *f = pop_frame(CUPTI_CB_DOMAIN_RUNTIME_API, call);
	struct ckc_cupti *s = ckc_client_current()->cupti;

	if (!f)
		return;
	record_frame(s, f, 0);
	if (unlikely(s->reports_runtime))
		report_runtime(f, 1);
}

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

/* Messages of a lane follow each other, and those of another lane are far away: by the lower bits
 * alone, both would have the same places. */
static uint32_t place_of(uint32_t message)
{
	return (message + (message / LINKS) * 0x9E3779B1u) % LINKS;
}

static void link_message(struct ckc_cupti *s, uint64_t id)
{
	_Atomic uint64_t *links = __atomic_load_n(&s->links, __ATOMIC_ACQUIRE);
	uint32_t message = ckc_cupti_message_number(id);
	const struct ckc_cupti_self *self = ckc_cupti_self();
	uint32_t number = !self ? 0 : self->depth > 0 ? self->frames[0].number : self->helped;

	if (links && number)
		atomic_store_explicit(&links[place_of(message)], (uint64_t)message << 32 | number,
				      memory_order_relaxed);
}

uint32_t ckc_cupti_call_of(const struct ckc_cupti *s, uint64_t id)
{
	uint32_t message = ckc_cupti_message_number(id);
	uint64_t link = s->links ? atomic_load(&s->links[place_of(message)]) : 0;

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

static void on_message(const struct ckc_message *m)
{
	struct ckc_cupti *s = ckc_client_current()->cupti;

	if (m->proc < CK_PROC_END && ck_procs[m->proc].unprofiled)
		return;
	link_message(s, m->id);
	if (ckc_cupti_wants(s, CKC_CUPTI_MESSAGE))
		note_message(s, m);
}
CK_HOOK(message, on_message, ckc_cupti_clock, on_message);
