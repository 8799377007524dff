/*
 * client/cupti/profile_rows.c - the process's own profile: a record becomes an event in a row of
 * the timeline.
 *
 * Rows are the program's threads, the messages of each thread, and the streams of each GPU.
 * Perfetto groups rows by process, so the latter two have numbers that no process of Linux has.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cupti/cupti.h"
#include "rpc/proc.h"
#include "util/process/proc_file.h"

#define WIRE (1u << 22) /* the first number beyond those of processes */
#define GPU (WIRE + 16)

#define TEXT(t, key, text) ck_timeline_text(t, key, text, strlen(text))

static void name_row(struct ck_timeline *t, const char *what, uint64_t process, uint64_t thread,
		     const char *name)
{
	const struct ck_timeline_place place = {.process = process, .thread = thread};

	ck_timeline_begin(t, 'M', what, "", &place);
	ck_timeline_args(t);
	TEXT(t, "name", name);
	ck_timeline_end(t);
}

static void sort_row(struct ck_timeline *t, uint64_t process, int64_t at)
{
	const struct ck_timeline_place place = {.process = process};

	ck_timeline_begin(t, 'M', "process_sort_index", "", &place);
	ck_timeline_args(t);
	ck_timeline_number(t, "sort_index", at);
	ck_timeline_end(t);
}

/* Is this the first event of the row? */
static bool is_new(struct ckc_profile_file *own, uint64_t process, uint64_t thread)
{
	for (unsigned int i = own->row_count; i > 0; i--) {
		if (own->rows[i - 1].process == process && own->rows[i - 1].thread == thread)
			return false;
	}
	if (own->row_count == CKC_OWN_ROWS)
		return false;
	own->rows[own->row_count++] = (struct ckc_profile_file_row){process, thread};
	return true;
}

static void name_thread(struct ckc_profile_file *own, uint64_t process, uint32_t thread)
{
	struct ck_proc_lines lines = {0};
	struct ck_proc_file f;
	char path[64], *name;

	if (!is_new(own, process, thread))
		return;
	snprintf(path, sizeof(path), "/proc/self/task/%u/comm", thread);
	if (ck_proc_file_open(&f, path) < 0)
		return;
	name = ck_proc_file_line(&f, &lines);
	ck_proc_file_close(&f);
	if (name && name[0])
		name_row(&own->text, "thread_name", process, thread, name);
}

/* The row of a stream: its number in the row's group. */
static uint64_t stream_row(struct ckc_client *c, uint32_t device, uint32_t context, uint32_t stream)
{
	struct ckc_profile_file *own = &c->cupti->own;
	uint64_t process = GPU + device, thread = (uint64_t)context << 20 | stream;
	char name[320];

	if (is_new(own, process, UINT64_MAX)) {
		snprintf(name, sizeof(name), "GPU %u%s%.200s", device,
			 device < (uint32_t)c->gpu_count ? " " : "",
			 device < (uint32_t)c->gpu_count ? c->gpus[device].facts->name : "");
		name_row(&own->text, "process_name", process, 0, name);
		sort_row(&own->text, process, 2 + (int64_t)device);
	}
	if (is_new(own, process, thread)) {
		snprintf(name, sizeof(name), "stream %u of context %u", stream, context);
		name_row(&own->text, "thread_name", process, thread, name);
	}
	return thread;
}

static struct ck_timeline_place place_of(const struct ckc_profile_file *own, uint64_t ns,
					 uint64_t process, uint64_t thread)
{
	uint64_t since = ns > own->began ? ns - own->began : 0;

	return (struct ck_timeline_place){since, process, thread};
}

static void begin_span(struct ckc_profile_file *own, const char *name, const char *category,
		       const struct ck_timeline_place *place, uint64_t took)
{
	ck_timeline_begin(&own->text, 'X', name, category, place);
	ck_timeline_us(&own->text, "dur", took);
	ck_timeline_args(&own->text);
}

/* --- calls */

static void take_call(struct ckc_profile_file *own, const struct ck_cupti_api *call)
{
	bool runtime = call->kind == CUPTI_ACTIVITY_KIND_RUNTIME;
	const char *full = ckc_cupti_call_name(
		runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API, call->call);
	struct ck_timeline_place place = place_of(own, call->start, call->process, call->thread);
	char name[128];

	if (full)
		snprintf(name, sizeof(name), "%.*s", (int)ckc_cupti_name_length(full), full);
	else
		snprintf(name, sizeof(name), "call %u", call->call);
	name_thread(own, call->process, call->thread);
	begin_span(own, name, runtime ? "runtime" : "driver", &place, call->end - call->start);
	ck_timeline_number(&own->text, "correlation", call->correlation);
	if (call->result)
		ck_timeline_number(&own->text, "result", call->result);
	ck_timeline_end(&own->text);
	own->calls[call->correlation % CKC_OWN_CALLS] =
		(struct ckc_profile_file_call){call->correlation, call->thread, call->start};
}

/* A range of one thread lies in its row; one that may end in another has a row of its own. */
static void take_marker(struct ckc_profile_file *own, const struct ck_cupti_marker *m)
{
	struct ck_timeline_place place = place_of(own, m->time, m->process, m->thread);
	bool begins = m->flags & CUPTI_ACTIVITY_FLAG_MARKER_START;
	bool ends = m->flags & CUPTI_ACTIVITY_FLAG_MARKER_END;
	char phase = begins ? 'B' : ends ? 'E' : 'i';
	const char **range = &own->ranges[m->id % CKC_OWN_RANGES], *name = m->name;

	if (m->flags & CKC_MARKER_FREE) {
		phase = begins ? 'b' : 'e';
		name = begins ? (*range = m->name) : *range; /* its end has none, and needs it */
	}
	name_thread(own, m->process, m->thread);
	ck_timeline_begin(&own->text, phase, name ? name : "", "marker", &place);
	if (m->flags & CKC_MARKER_FREE)
		ck_timeline_number(&own->text, "id", m->id);
	if (phase == 'i')
		TEXT(&own->text, "s", "t");
	if (m->domain) {
		ck_timeline_args(&own->text);
		TEXT(&own->text, "domain", m->domain);
	}
	ck_timeline_end(&own->text);
}

static void take_message(struct ckc_profile_file *own, const struct ckc_cupti_message *m)
{
	struct ck_timeline_place place = place_of(own, m->start, WIRE, m->thread);

	name_thread(own, WIRE, m->thread);
	begin_span(own, m->proc < CK_PROC_END ? ck_procs[m->proc].name : "message",
		   m->waits ? "wait" : "one-way", &place, m->end - m->start);
	ck_timeline_number(&own->text, "sent", (int64_t)m->sent);
	if (m->waits)
		ck_timeline_number(&own->text, "received", (int64_t)m->received);
	if (m->result)
		ck_timeline_number(&own->text, "result", m->result);
	ck_timeline_end(&own->text);
}

/* --- work of the GPU */

static void end_of_arrow(struct ckc_profile_file *own, char phase,
			 const struct ck_timeline_place *place, uint32_t correlation)
{
	ck_timeline_begin(&own->text, phase, "call", "call", place);
	ck_timeline_number(&own->text, "id", correlation);
	if (phase == 'f')
		TEXT(&own->text, "bp", "e"); /* at the beginning of the work */
	ck_timeline_end(&own->text);
}

/* From the call to its first work: a copy may be several of the device. */
static void add_arrow(struct ckc_profile_file *own, const struct ck_timeline_place *work,
		      uint32_t correlation)
{
	struct ckc_profile_file_call *call = &own->calls[correlation % CKC_OWN_CALLS];
	struct ck_timeline_place from =
		place_of(own, call->start, (uint64_t)getpid(), call->thread);

	if (correlation == 0 || call->correlation != correlation)
		return;
	end_of_arrow(own, 's', &from, correlation);
	end_of_arrow(own, 'f', work, correlation);
	call->correlation = 0;
}

static void add_size(struct ck_timeline *t, const char *key, const int32_t size[3])
{
	char text[64];

	snprintf(text, sizeof(text), "%d x %d x %d", size[0], size[1], size[2]);
	TEXT(t, key, text);
}

/* The name as in the source, if the program has a library of C++ that knows it. The caller frees
 * it. */
static char *demangle_name(const char *name)
{
	char *(*demangle)(const char *, char *, size_t *, int *);
	int status;

	if (strncmp(name, "_Z", 2) != 0)
		return NULL;
	demangle = (char *(*)(const char *, char *, size_t *, int *))dlsym(RTLD_DEFAULT,
									   "__cxa_demangle");
	return demangle ? demangle(name, NULL, NULL, &status) : NULL;
}

static void take_kernel(struct ckc_client *c, const struct ck_cupti_kernel *k)
{
	struct ckc_profile_file *own = &c->cupti->own;
	uint64_t row = stream_row(c, k->device, k->context, k->stream);
	struct ck_timeline_place place = place_of(own, k->start, GPU + k->device, row);

	char *plain = demangle_name(k->name);

	begin_span(own, plain ? plain : k->name, "kernel", &place, k->end - k->start);
	free(plain);
	add_size(&own->text, "grid", k->grid);
	add_size(&own->text, "block", k->block);
	ck_timeline_number(&own->text, "registers", k->registers_per_thread);
	ck_timeline_number(&own->text, "shared memory",
			   (int64_t)k->static_shared + k->dynamic_shared);
	ck_timeline_number(&own->text, "correlation", k->correlation);
	ck_timeline_end(&own->text);
	add_arrow(own, &place, k->correlation);
}

static const char *copy_name(unsigned int kind)
{
	switch (kind) {
	case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
		return "copy to the device";
	case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
		return "copy from the device";
	case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
		return "copy on the device";
	default:
		return "copy";
	}
}

static void take_copy(struct ckc_client *c, const struct ck_cupti_memcpy *m)
{
	struct ckc_profile_file *own = &c->cupti->own;
	uint64_t row = stream_row(c, m->device, m->context, m->stream);
	struct ck_timeline_place place = place_of(own, m->start, GPU + m->device, row);

	begin_span(own, copy_name(m->copy_kind), "copy", &place, m->end - m->start);
	ck_timeline_number(&own->text, "bytes", (int64_t)m->bytes);
	ck_timeline_number(&own->text, "correlation", m->correlation);
	ck_timeline_end(&own->text);
	add_arrow(own, &place, m->correlation);
}

static void take_peer(struct ckc_client *c, const struct ck_cupti_peer *p)
{
	struct ckc_profile_file *own = &c->cupti->own;
	uint64_t row = stream_row(c, p->device, p->context, p->stream);
	struct ck_timeline_place place = place_of(own, p->start, GPU + p->device, row);

	begin_span(own, "copy to another device", "copy", &place, p->end - p->start);
	ck_timeline_number(&own->text, "bytes", (int64_t)p->bytes);
	ck_timeline_number(&own->text, "from", p->src_device);
	ck_timeline_number(&own->text, "to", p->dst_device);
	ck_timeline_number(&own->text, "correlation", p->correlation);
	ck_timeline_end(&own->text);
	add_arrow(own, &place, p->correlation);
}

static void take_fill(struct ckc_client *c, const struct ck_cupti_memset *m)
{
	struct ckc_profile_file *own = &c->cupti->own;
	uint64_t row = stream_row(c, m->device, m->context, m->stream);
	struct ck_timeline_place place = place_of(own, m->start, GPU + m->device, row);

	begin_span(own, "fill", "fill", &place, m->end - m->start);
	ck_timeline_number(&own->text, "bytes", (int64_t)m->bytes);
	ck_timeline_number(&own->text, "correlation", m->correlation);
	ck_timeline_end(&own->text);
	add_arrow(own, &place, m->correlation);
}

void ckc_profile_file_take(struct ckc_client *c, const void *record)
{
	struct ckc_profile_file *own = &c->cupti->own;

	switch (*(const uint32_t *)record) {
	case CUPTI_ACTIVITY_KIND_DRIVER:
	case CUPTI_ACTIVITY_KIND_RUNTIME:
		take_call(own, record);
		break;
	case CUPTI_ACTIVITY_KIND_MARKER:
		take_marker(own, record);
		break;
	case CKC_CUPTI_MESSAGE:
		take_message(own, record);
		break;
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		take_kernel(c, record);
		break;
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		take_copy(c, record);
		break;
	case CUPTI_ACTIVITY_KIND_MEMCPY2:
		take_peer(c, record);
		break;
	case CUPTI_ACTIVITY_KIND_MEMSET:
		take_fill(c, record);
		break;
	default:
		break;
	}
}

void ckc_profile_file_begin(struct ckc_client *c)
{
	struct ckc_profile_file *own = &c->cupti->own;
	uint64_t process = (uint64_t)getpid();
	char name[640];

	own->began = ckc_cupti_clock();
	name_row(&own->text, "process_name", process, 0, program_invocation_short_name);
	sort_row(&own->text, process, 0);
	snprintf(name, sizeof(name), "messages to %s", ckc_session_server(c));
	name_row(&own->text, "process_name", WIRE, 0, name);
	sort_row(&own->text, WIRE, 1);
}

void ckc_profile_file_finish(struct ckc_client *c)
{
	struct ckc_profile_file *own = &c->cupti->own;
	struct ck_timeline_place place =
		place_of(own, ckc_cupti_clock(), (uint64_t)getpid(), (uint64_t)getpid());

	if (own->dropped == 0)
		return;
	ck_timeline_begin(&own->text, 'i', "records dropped", "profile", &place);
	TEXT(&own->text, "s", "g");
	ck_timeline_args(&own->text);
	ck_timeline_number(&own->text, "count", (int64_t)own->dropped);
	ck_timeline_end(&own->text);
}
