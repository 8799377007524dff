/*
 * client/cupti/nvtx.c - ranges and marks that the program sets by NVTX, as CUPTI's markers.
 *
 * NVTX is a header in the program. At its first call it loads the library that
 * NVTX_INJECTION64_PATH names, and has InitializeInjectionNvtx2 put functions into its tables.
 * Calls whose entries stay empty do nothing. The layout is that of NVTX 3's public headers
 * (nvtxDetail/nvtxTypes.h, nvToolsExt.h). Texts of wide characters are left out.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cupti/api.h"
#include "client/cupti/cupti.h"
#include "util/map.h"

#define NESTED 64
#define TEXTS_MAX (1u << 16) /* different ones that are kept */
#define TEXT_MAX 4096
#define TABLE_CALLBACKS 1 /* of NVTX's export tables */
#define NO_TRACKING (-2)  /* NVTX's result where nothing tracks ranges */

enum { MODULE_CORE = 1, MODULE_CORE2 = 5 };
enum { MESSAGE_ASCII = 1, MESSAGE_REGISTERED = 3 };

struct event {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const char *message;
};

/* The ranges that a thread has pushed. */
struct ckc_cupti_range {
	struct ckc_cupti_range *outer;
	uint32_t id;
	int level;
	const char *domain;
};

/* A text that stays, as records point to it. */
static const char *keep_text(struct ckc_cupti *s, const char *text)
{
	size_t size = text ? strnlen(text, TEXT_MAX) : 0;
	char *found = NULL;

	if (size == 0)
		return "";
	ck_lock(&s->lock);
	if (!s->texts)
		s->texts = ck_map_create();
	if (s->texts)
		found = ck_map_find(s->texts, text, size);
	if (s->texts && !found && ck_map_count(s->texts) < TEXTS_MAX) {
		found = strndup(text, size);
		if (found && ck_map_insert(s->texts, text, size, found) < 0) {
			free(found);
			found = NULL;
		}
	}
	ck_unlock(&s->lock);
	return found ? found : "...";
}

/* A range begins or ends, or an instant is marked. */
static void record_marker(struct ckc_cupti *s, uint32_t flags, uint32_t id, const char *domain,
			  const char *text)
{
	struct ck_cupti_marker m = {
		.kind = CUPTI_ACTIVITY_KIND_MARKER,
		.flags = flags,
		.time = ckc_cupti_clock(),
		.id = id,
		.object = CUPTI_ACTIVITY_OBJECT_THREAD,
		.process = (uint32_t)getpid(),
		.thread = ckc_cupti_thread(),
		/* only the beginning has the texts, as with CUPTI */
		.name = flags & CUPTI_ACTIVITY_FLAG_MARKER_END ? NULL : text,
		.domain = flags & CUPTI_ACTIVITY_FLAG_MARKER_END ? NULL : domain,
	};

	ckc_cupti_note(s, &m, sizeof(m));
}

static struct ckc_cupti *get_cupti_if_wanted(void)
{
	struct ckc_cupti *s = ckc_client_current()->cupti;

	return ckc_cupti_wants(s, CUPTI_ACTIVITY_KIND_MARKER) ? s : NULL;
}

static uint32_t next_id(void)
{
	static _Atomic uint32_t last;

	return atomic_fetch_add(&last, 1) + 1;
}

static const char *text_of(struct ckc_cupti *s, const struct event *e)
{
	if (!e || e->size < sizeof(*e))
		return "";
	if (e->message_type == MESSAGE_REGISTERED)
		return e->message ? e->message : ""; /* one of ours */
	return e->message_type == MESSAGE_ASCII ? keep_text(s, e->message) : "";
}

/* --- the functions. A domain, and a registered string, is a kept text; NULL: the default
 * domain. */

static int push_range(struct ckc_cupti *s, const char *domain, const char *text)
{
	struct ckc_cupti_self *self = ckc_cupti_self();
	int level = self && self->range ? self->range->level + 1 : 0;
	struct ckc_cupti_range *r = self && level < NESTED ? malloc(sizeof(*r)) : NULL;

	if (!r)
		return NO_TRACKING;
	*r = (struct ckc_cupti_range){self->range, next_id(), level, domain};
	self->range = r;
	record_marker(s, CUPTI_ACTIVITY_FLAG_MARKER_START, r->id, domain, text);
	return level;
}

static int domain_push(const char *domain, const struct event *e)
{
	struct ckc_cupti *s = get_cupti_if_wanted();

	return s ? push_range(s, domain, text_of(s, e)) : NO_TRACKING;
}

/* A range that was pushed in a profile ends, even after it. */
static int domain_pop(const char *domain)
{
	struct ckc_cupti_self *self = ckc_cupti_self();
	struct ckc_cupti_range *r = self ? self->range : NULL;
	int level;

	if (!r || r->domain != domain)
		return NO_TRACKING;
	record_marker(ckc_client_current()->cupti, CUPTI_ACTIVITY_FLAG_MARKER_END, r->id, domain,
		      NULL);
	self->range = r->outer;
	level = r->level;
	free(r);
	return level;
}

void ckc_cupti_ranges_free(struct ckc_cupti_range *innermost)
{
	while (innermost) {
		struct ckc_cupti_range *r = innermost;

		innermost = r->outer;
		free(r);
	}
}

static uint64_t domain_start(const char *domain, const struct event *e)
{
	struct ckc_cupti *s = get_cupti_if_wanted();
	uint32_t id = s ? next_id() : 0;

	if (s)
		record_marker(s, CUPTI_ACTIVITY_FLAG_MARKER_START | CKC_MARKER_FREE, id, domain,
			      text_of(s, e));
	return id;
}

static void domain_end(const char *domain, uint64_t id)
{
	if (id != 0 && get_cupti_if_wanted())
		record_marker(get_cupti_if_wanted(),
			      CUPTI_ACTIVITY_FLAG_MARKER_END | CKC_MARKER_FREE, (uint32_t)id,
			      domain, NULL);
}

static void domain_mark(const char *domain, const struct event *e)
{
	struct ckc_cupti *s = get_cupti_if_wanted();

	if (s)
		record_marker(s, CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS, next_id(), domain,
			      text_of(s, e));
}

static struct event of_text(const char *text)
{
	return (struct event){
		.size = sizeof(struct event), .message_type = MESSAGE_ASCII, .message = text};
}

static void mark_ex(const struct event *e)
{
	domain_mark(NULL, e);
}

static void mark_text(const char *text)
{
	const struct event e = of_text(text);

	domain_mark(NULL, &e);
}

static uint64_t start_ex(const struct event *e)
{
	return domain_start(NULL, e);
}

static uint64_t start_text(const char *text)
{
	const struct event e = of_text(text);

	return domain_start(NULL, &e);
}

static void end_range(uint64_t id)
{
	domain_end(NULL, id);
}

static int push_ex(const struct event *e)
{
	return domain_push(NULL, e);
}

static int push_text(const char *text)
{
	const struct event e = of_text(text);

	return domain_push(NULL, &e);
}

static int pop_range(void)
{
	return domain_pop(NULL);
}

static const char *register_text(const char *domain, const char *text)
{
	(void)domain;
	return keep_text(ckc_client_current()->cupti, text);
}

static const char *create_domain(const char *name)
{
	return keep_text(ckc_client_current()->cupti, name);
}

/* --- the tables */

#define ENTRY(number, function)                                                                    \
	{                                                                                          \
		number, (void (*)(void))(function)                                                 \
	}

static const struct entry {
	unsigned int number;
	void (*function)(void);
} core[] = {ENTRY(1, mark_ex),	 ENTRY(2, mark_text), ENTRY(4, start_ex),  ENTRY(5, start_text),
	    ENTRY(7, end_range), ENTRY(8, push_ex),   ENTRY(9, push_text), ENTRY(11, pop_range)},
  core2[] = {ENTRY(1, domain_mark),   ENTRY(2, domain_start), ENTRY(3, domain_end),
	     ENTRY(4, domain_push),   ENTRY(5, domain_pop),   ENTRY(10, register_text),
	     ENTRY(12, create_domain)};

struct callbacks {
	size_t size;
	int (*table)(uint32_t module, void (****slots)(void), unsigned int *count);
};

static void fill_table(const struct callbacks *callbacks, uint32_t module,
		       const struct entry *entries, size_t entry_count)
{
	void (***slots)(void) = NULL;
	unsigned int count = 0;

	if (!callbacks->table(module, &slots, &count) || !slots)
		return;
	for (size_t i = 0; i < entry_count; i++) {
		if (entries[i].number < count && slots[entries[i].number])
			*slots[entries[i].number] = entries[i].function;
	}
}

CK_EXPORT int InitializeInjectionNvtx2(const void *(*tables)(uint32_t))
{
	const struct callbacks *callbacks = tables ? tables(TABLE_CALLBACKS) : NULL;

	if (!callbacks || callbacks->size < sizeof(*callbacks) || !callbacks->table)
		return 0;
	fill_table(callbacks, MODULE_CORE, core, CK_ARRAY_SIZE(core));
	fill_table(callbacks, MODULE_CORE2, core2, CK_ARRAY_SIZE(core2));
	return 1;
}
