/*
 * client/cupti/buffer.c - hand records to the program, in buffers that it provides.
 */
#include <string.h>

#include "client/cupti/cupti.h"

static void request_buffer(struct ckc_cupti *s)
{
	struct ck_cupti_request info = {.size = sizeof(info)};

	if (s->request_v2)
		s->request_v2(&s->buffer, &s->room, &s->records_max, &info);
	else if (s->request)
		s->request(&s->buffer, &s->room, &s->records_max);
}

void ckc_cupti_finish(struct ckc_cupti *s)
{
	struct ck_cupti_complete info = {.size = sizeof(info)};

	if (s->buffer && s->complete_v2) {
		info.thread = ckc_cupti_thread();
		s->complete_v2(s->buffer, s->room, s->used, &info);
	} else if (s->buffer) {
		s->complete(NULL, 0, s->buffer, s->room, s->used);
	}
	s->buffer = NULL;
	s->room = s->used = s->records = s->records_max = 0;
}

void ckc_cupti_begin(struct ckc_cupti *s)
{
	if (!s->buffer && atomic_load(&s->asked) != 0)
		request_buffer(s);
}

static bool record_fits(const struct ckc_cupti *s, size_t size)
{
	return s->buffer && s->room - s->used >= size &&
	       (s->records_max == 0 || s->records < s->records_max);
}

void ckc_cupti_append(struct ckc_client *c, const void *record)
{
	struct ckc_cupti *s = c->cupti;
	uint32_t kind = *(const uint32_t *)record;
	size_t size = ck_cupti_record_size(kind);

	if (s->own.on) {
		ckc_profile_file_take(c, record);
		return;
	}
	if (size == 0) /* left over from a profile of our own */
		return;
	if (!record_fits(s, size)) {
		ckc_cupti_finish(s);
		request_buffer(s);
	}
	if (!record_fits(s, size)) {
		ck_lock(&s->lock);
		s->dropped++;
		ck_unlock(&s->lock);
		return;
	}
	memcpy(s->buffer + s->used, record, size);
	if (kind == CUPTI_ACTIVITY_KIND_MARKER)
		((struct ck_cupti_marker *)(void *)(s->buffer + s->used))->flags &=
			~CKC_MARKER_FREE;
	s->used += size;
	s->records++;
}
