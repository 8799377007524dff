/*
 * tests/fuzz/fuzz_client_activity.c - any bytes as a server's records of a profile: what reaches
 * the program is a whole record, with a name if it is a kernel's, and the timeline takes it.
 */
#include <string.h>

#include "client/cupti/cupti.h"
#include "tests/fuzz/standalone.h"

#define ROOM 65536

static _Alignas(8) uint8_t room[ROOM];
static bool asked;

static void on_request(uint8_t **buffer, size_t *size, size_t *records)
{
	CK_FUZZ_CHECK(!asked);
	asked = true;
	*buffer = room;
	*size = ROOM;
	*records = 0;
}

static void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	void *record = NULL;
	size_t sum = 0;

	(void)context, (void)stream;
	CK_FUZZ_CHECK(asked && buffer == room && size == ROOM && valid <= ROOM);
	asked = false;
	while (ck_cupti_next(buffer, valid, &record) == CUPTI_SUCCESS) {
		const union ck_cupti_record *r = record;

		sum += ck_cupti_record_size(r->kind);
		if (r->kind == CUPTI_ACTIVITY_KIND_KERNEL ||
		    r->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
			CK_FUZZ_CHECK(strlen(r->kernel.name) <= CK_ACTIVITY_NAME_MAX);
	}
	CK_FUZZ_CHECK(sum == valid);
}

static void forget(struct ckc_cupti *s)
{
	for (uint32_t i = 0; i < s->name_count; i++)
		free(s->names[i]);
	free(s->names);
	s->names = NULL;
	s->name_count = 0;
	if (s->matches)
		memset(s->matches, 0, sizeof(*s->matches) << 8);
}

/* The first bytes are what the clocks show. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ckc_profile_file_call calls[CKC_OWN_CALLS];
	struct ckc_client *c = ckc_client_current();
	struct ckc_cupti *s = c->cupti;
	struct ckc_cupti_sample clocks[2];
	unsigned char *bytes;

	if (size < sizeof(clocks))
		return 0;
	memcpy(clocks, data, sizeof(clocks));
	s->before = clocks[0];
	s->rate = 0;
	ckc_cupti_clock_step(s, &clocks[1]);
	s->request = on_request;
	s->complete = on_complete;
	s->own.calls = calls;
	size -= sizeof(clocks);
	bytes = malloc(size ? size : 1);
	memcpy(bytes, data + sizeof(clocks), size);
	for (int own = 0; own < 2; own++) {
		s->own.on = own;
		ckc_cupti_take_all(c, bytes, size);
		ckc_cupti_finish(s);
	}
	CK_FUZZ_CHECK(s->own.row_count <= CKC_OWN_ROWS && !asked);
	s->own.on = false;
	s->own.row_count = 0;
	ck_timeline_free(&s->own.text);
	forget(s);
	free(bytes);
	return 0;
}
