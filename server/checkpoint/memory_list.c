/*
 * server/checkpoint/memory_list.c - the list of the pieces in memory_file.h, as the manifest has
 * it.
 *
 * A piece is [ADDRESS, SLOT, HASH], and then its mark if it has one; a piece of zeros [ADDRESS].
 */
#include <errno.h>
#include <stdlib.h>

#include "server/checkpoint/memory_file.h"
#include "util/util.h"

int cks_memory_file_add(struct cks_memory_file *m, uint64_t at, uint64_t size)
{
	size_t more = size / CK_MEMORY_PIECE;
	struct cks_memory_piece *pieces;

	if (size % CK_MEMORY_PIECE || more > CK_MEMORY_MAX - m->count)
		return -EINVAL;
	pieces = realloc(m->pieces, (m->count + more + 1) * sizeof(*pieces));
	if (!pieces)
		return -ENOMEM;
	m->pieces = pieces;
	for (size_t i = 0; i < more; i++)
		pieces[m->count++] = (struct cks_memory_piece){.at = at + i * CK_MEMORY_PIECE};
	return 0;
}

void cks_memory_file_free(struct cks_memory_file *m)
{
	free(m->pieces);
	*m = (struct cks_memory_file){.count = 0};
}

/* --- to JSON */

static json_t *piece_json(const struct cks_memory_piece *p)
{
	char hash[CK_HASH_TEXT], mark[CKS_PIECE_HASH_TEXT];

	if (p->slot == CK_MEMORY_ZERO)
		return json_pack("[I]", (json_int_t)p->at);
	ck_hash_print(&p->hash, hash);
	cks_piece_hash_print(&p->mark, mark);
	return json_pack("[I, I, s, s*]", (json_int_t)p->at, (json_int_t)p->slot, hash,
			 cks_piece_hash_known(&p->mark) ? mark : NULL);
}

static json_t *parts_json(const struct cks_memory_parts *parts)
{
	json_t *list = json_array();

	for (size_t i = 0; i < parts->count; i++)
		json_array_append_new(list,
				      json_pack("[I, I, I]", (json_int_t)parts->list[i].number,
						(json_int_t)parts->list[i].slots,
						(json_int_t)parts->list[i].written));
	return list;
}

json_t *cks_memory_file_json(const struct cks_memory_file *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->count; i++)
		json_array_append_new(list, piece_json(&m->pieces[i]));
	return json_pack("{s:I, s:I, s:o, s:o}", "slots", (json_int_t)m->slots, "state",
			 (json_int_t)m->state, "parts", parts_json(&m->parts), "pieces", list);
}

/* --- from JSON */

static int compare_addresses(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Threads fill the pieces in any order: each address is in at most one. The state, which is set
 * after them, is in none. */
static bool pieces_are_apart(const struct cks_memory_file *m)
{
	uint64_t *places = malloc((m->count + 1) * sizeof(*places));
	bool apart = places != NULL;

	for (size_t i = 0; apart && i < m->count; i++) {
		uint64_t at = m->pieces[i].at;

		places[i] = at;
		apart = m->state + sizeof(uint64_t) <= at || m->state >= at + CK_MEMORY_PIECE;
	}
	if (apart)
		qsort(places, m->count, sizeof(*places), compare_addresses);
	for (size_t i = 1; apart && i < m->count; i++)
		apart = places[i] - places[i - 1] >= CK_MEMORY_PIECE;
	free(places);
	return apart;
}

static bool take_address(const json_t *json, size_t room, uint64_t *out)
{
	json_int_t at = json_integer_value(json);

	*out = (uint64_t)at;
	return at > 0 && *out <= (uint64_t)INT64_MAX - room;
}

static bool take_piece(const json_t *entry, uint32_t slots, struct cks_memory_piece *p)
{
	json_int_t slot = json_integer_value(json_array_get(entry, 1));
	const char *hash = json_string_value(json_array_get(entry, 2));
	const char *mark = json_string_value(json_array_get(entry, 3));

	p->slot = CK_MEMORY_ZERO;
	if (!take_address(json_array_get(entry, 0), CK_MEMORY_PIECE, &p->at))
		return false;
	if (json_array_size(entry) == 1)
		return true;
	p->slot = (uint32_t)slot;
	return json_is_integer(json_array_get(entry, 1)) && slot >= 0 && slot < slots && hash &&
	       ck_hash_parse(hash, &p->hash) == 0 &&
	       (!mark || cks_piece_hash_parse(mark, &p->mark));
}

/* Files with numbers that grow, and together @slots. A release before them has memory.bin only. */
static bool take_parts(const json_t *list, uint32_t slots, struct cks_memory_parts *parts)
{
	json_int_t number, count, written, last = -1, sum = 0;
	const json_t *entry;
	size_t i;

	parts->count = 1;
	parts->list[0] = (struct cks_memory_part){.slots = slots};
	if (!list)
		return true;
	if (!json_is_array(list) || json_array_size(list) > CK_MEMORY_PARTS)
		return false;
	parts->count = json_array_size(list);
	json_array_foreach(list, i, entry)
	{
		if (json_unpack((json_t *)(uintptr_t)entry, "[I, I, I]", &number, &count,
				&written) < 0 ||
		    number <= last || number > INT32_MAX || count < 0 || count > slots - sum)
			return false;
		parts->list[i] = (struct cks_memory_part){
			.number = (uint32_t)number, .slots = (uint32_t)count, .written = written};
		last = number;
		sum += count;
	}
	return sum == slots;
}

bool cks_memory_file_take(const json_t *json, struct cks_memory_file *m)
{
	const json_t *list = json_object_get(json, "pieces"), *entry;
	json_int_t slots = json_integer_value(json_object_get(json, "slots"));
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > CK_MEMORY_MAX || slots < 0 ||
	    (size_t)slots > CK_MEMORY_SLOTS(json_array_size(list)))
		return false;
	m->pieces = calloc(json_array_size(list) + 1, sizeof(*m->pieces));
	if (!m->pieces)
		return false;
	m->slots = (uint32_t)slots;
	if (!take_parts(json_object_get(json, "parts"), m->slots, &m->parts) ||
	    !take_address(json_object_get(json, "state"), sizeof(uint64_t), &m->state))
		return false;
	json_array_foreach(list, i, entry)
	{
		if (!take_piece(entry, m->slots, &m->pieces[m->count++]))
			return false;
	}
	return pieces_are_apart(m);
}
