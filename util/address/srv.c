/*
 * util/address/srv.c - SRV records: the answer, and the order of its targets; see srv.h.
 */
#include <arpa/nameser.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "util/address/srv.h"

#define POINTERS 64 /* followed in one name, at most */

/* A DNS message that is being read. */
struct reader {
	const unsigned char *bytes;
	size_t size, at;
	bool bad;
};

static unsigned int read_u16(struct reader *r)
{
	unsigned int value;

	if (r->bad || r->size - r->at < 2) {
		r->bad = true;
		return 0;
	}
	value = (unsigned int)r->bytes[r->at] << 8 | r->bytes[r->at + 1];
	r->at += 2;
	return value;
}

static void skip_bytes(struct reader *r, size_t size)
{
	r->bad |= r->bad || r->size - r->at < size;
	if (!r->bad)
		r->at += size;
}

static bool is_host_byte(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '_';
}

/* Add a label of @length bytes to the name of *@used bytes; false: it is no host's. */
static bool add_label(char *out, size_t *used, const unsigned char *label, size_t length)
{
	if (*used + length + 2 > CK_SRV_HOST)
		return false;
	if (*used > 0)
		out[(*used)++] = '.';
	for (size_t i = 0; i < length; i++) {
		if (!is_host_byte(label[i]))
			return false;
		out[(*used)++] = (char)label[i];
	}
	return true;
}

/* The name at @at, which may continue elsewhere in the message; returns where the message goes on
 * behind it. 0: it is bad. @out NULL: only skip it. */
static size_t read_name(const struct reader *r, size_t at, char *out)
{
	size_t behind = 0, used = 0;

	for (unsigned int hops = 0; at < r->size; hops++) {
		unsigned int length = r->bytes[at];

		if (hops > POINTERS + CK_SRV_HOST)
			return 0;
		if (length == 0) {
			if (out)
				out[used] = '\0';
			return behind ? behind : at + 1;
		}
		if (length >= 0xc0) {
			if (r->size - at < 2)
				return 0;
			behind = behind ? behind : at + 2;
			if (!out)
				return behind;
			at = (size_t)(length & 0x3f) << 8 | r->bytes[at + 1];
			continue;
		}
		if (length > 63 || r->size - at - 1 < length ||
		    (out && !add_label(out, &used, r->bytes + at + 1, length)))
			return 0;
		at += 1 + length;
	}
	return 0;
}

static void skip_name(struct reader *r)
{
	size_t behind = r->bad ? 0 : read_name(r, r->at, NULL);

	r->bad |= behind == 0;
	if (behind)
		r->at = behind;
}

/* One record of the answer; those of other types are passed over. A target of "." says that the
 * service is not there. */
static void read_record(struct reader *r, struct ck_srv_list *list)
{
	struct ck_srv_target *t = &list->targets[list->count];
	unsigned int type, class, size;
	size_t end;

	skip_name(r);
	type = read_u16(r);
	class = read_u16(r);
	skip_bytes(r, 4); /* time to live */
	size = read_u16(r);
	end = r->at + size;
	if (r->bad || r->size - r->at < size) {
		r->bad = true;
		return;
	}
	if (type == ns_t_srv && class == ns_c_in && list->count < CK_SRV_MAX) {
		t->priority = (uint16_t)read_u16(r);
		t->weight = (uint16_t)read_u16(r);
		t->port = (uint16_t)read_u16(r);
		r->bad |= r->at > end || read_name(r, r->at, t->host) != end;
		list->count += !r->bad && t->host[0] && t->port;
	}
	r->at = end;
}

int ck_srv_parse(const unsigned char *message, size_t size, struct ck_srv_list *list)
{
	struct reader r = {message, size, 4, false};
	unsigned int questions, answers;

	list->count = 0;
	if (size < NS_HFIXEDSZ || !(message[2] & 0x80))
		return -EBADMSG;
	questions = read_u16(&r);
	answers = read_u16(&r);
	r.at = NS_HFIXEDSZ;
	while (questions-- > 0 && !r.bad) {
		skip_name(&r);
		skip_bytes(&r, 4);
	}
	while (answers-- > 0 && !r.bad)
		read_record(&r, list);
	if (r.bad)
		return -EBADMSG;
	return list->count > 0 ? 0 : -ENOENT;
}

static void move_to(struct ck_srv_list *list, unsigned int from, unsigned int to)
{
	struct ck_srv_target t = list->targets[from];

	memmove(&list->targets[to + 1], &list->targets[to], (from - to) * sizeof(t));
	list->targets[to] = t;
}

/* Stable: by priority, and of one priority those without weight first, as RFC 2782 has it. */
static bool comes_before(const struct ck_srv_target *a, const struct ck_srv_target *b)
{
	if (a->priority != b->priority)
		return a->priority < b->priority;
	return a->weight == 0 && b->weight > 0;
}

static void sort_targets(struct ck_srv_list *list)
{
	for (unsigned int i = 1; i < list->count; i++) {
		unsigned int to = i;

		while (to > 0 && comes_before(&list->targets[i], &list->targets[to - 1]))
			to--;
		move_to(list, i, to);
	}
}

void ck_srv_order(struct ck_srv_list *list, uint32_t (*draw)(uint32_t most))
{
	sort_targets(list);
	for (unsigned int i = 0; i < list->count; i++) {
		uint32_t sum = 0, seen = 0, chosen;
		unsigned int end = i, pick = i;

		while (end < list->count &&
		       list->targets[end].priority == list->targets[i].priority)
			sum += list->targets[end++].weight;
		chosen = draw(sum);
		while (pick + 1 < end && (seen += list->targets[pick].weight) < chosen)
			pick++;
		move_to(list, pick, i);
	}
}
