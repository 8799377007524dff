/*
 * rpc/pinned.c - see rpc/pinned.h.
 */
#include <stdatomic.h>
#include <string.h>

#include "rpc/pinned.h"
#include "util/util.h"

#define BLOCK 512u  /* bytes that are compared at once */
#define GAP_MOST 2u /* equal words inside a run: a new run would be longer */
#define ALL 0xffu   /* the mask of a whole word */

struct head {
	uint64_t number;
	uint32_t word, words;
};

static size_t masks_size(size_t words)
{
	return CK_ALIGN_UP(words, CK_CHANGES_WORD);
}

static uint64_t load_word(const void *base, size_t word)
{
	const _Atomic uint64_t *at = (const _Atomic uint64_t *)base + word;

	return atomic_load_explicit(at, memory_order_relaxed);
}

/* The mask of the bytes in which @a and @b differ. */
static unsigned char mask_of(uint64_t a, uint64_t b)
{
	unsigned int mask = 0;

	for (unsigned int i = 0; i < CK_CHANGES_WORD; i++)
		mask |= ((a ^ b) >> 8 * i & ALL ? 1u : 0u) << i;
	return (unsigned char)mask;
}

/* The bits of the bytes in @mask. */
static uint64_t bits_of(unsigned char mask)
{
	uint64_t bits = 0;

	for (unsigned int i = 0; i < CK_CHANGES_WORD; i++)
		bits |= mask >> i & 1 ? (uint64_t)ALL << 8 * i : 0;
	return bits;
}

/* The run that begins at @word, a word that differs: its length in words. */
static size_t run_length(const void *now, const uint64_t *shadow, size_t word, size_t end)
{
	size_t last = word;

	for (size_t i = word + 1; i < end && i - last <= GAP_MOST + 1; i++) {
		if (load_word(now, i) != shadow[i])
			last = i;
	}
	return last - word + 1;
}

static size_t put_run(uint64_t number, const void *now, uint64_t *shadow, size_t word, size_t words,
		      unsigned char *to)
{
	struct head head = {number, (uint32_t)word, (uint32_t)words};
	unsigned char *masks = to + sizeof(head), *bytes = masks + masks_size(words);

	memcpy(to, &head, sizeof(head));
	memset(masks, 0, masks_size(words));
	for (size_t i = 0; i < words; i++) {
		uint64_t value = load_word(now, word + i);

		masks[i] = mask_of(value, shadow[word + i]);
		memcpy(bytes + i * sizeof(value), &value, sizeof(value));
		shadow[word + i] = value;
	}
	return sizeof(head) + masks_size(words) + words * CK_CHANGES_WORD;
}

size_t ck_changes_find(uint64_t number, const void *now, void *shadow, size_t first, size_t size,
		       unsigned char *list)
{
	size_t end = (first + size) / CK_CHANGES_WORD, used = 0;
	size_t word = first / CK_CHANGES_WORD;
	uint64_t *known = shadow;

	while (word < end) {
		size_t step = ck_min(end - word, BLOCK / CK_CHANGES_WORD), words;

		if (memcmp((const uint64_t *)now + word, known + word, step * CK_CHANGES_WORD) ==
		    0) {
			word += step;
			continue;
		}
		for (step += word; word < step && load_word(now, word) == known[word]; word++)
			;
		if (word == step) /* it has changed back meanwhile */
			continue;
		words = run_length(now, known, word, end);
		used += put_run(number, now, known, word, words, list + used);
		word += words + GAP_MOST + 1; /* those after the run are equal */
	}
	return used;
}

bool ck_changes_next(const void *list, size_t size, size_t *at, struct ck_changes_run *run)
{
	const unsigned char *from = (const unsigned char *)list + *at;
	size_t left = size - *at, length;
	struct head head;

	if (left < sizeof(head))
		return false;
	memcpy(&head, from, sizeof(head));
	length = sizeof(head) + masks_size(head.words) + (size_t)head.words * CK_CHANGES_WORD;
	if (head.words == 0 || length > left)
		return false;
	*run = (struct ck_changes_run){
		.number = head.number,
		.at = (size_t)head.word * CK_CHANGES_WORD,
		.size = (size_t)head.words * CK_CHANGES_WORD,
		.masks = from + sizeof(head),
		.words = from + sizeof(head) + masks_size(head.words),
	};
	*at += length;
	return true;
}

void ck_changes_apply(const struct ck_changes_run *run, void *base)
{
	_Atomic uint64_t *to = (_Atomic uint64_t *)base + run->at / CK_CHANGES_WORD;

	for (size_t i = 0; i < run->size / CK_CHANGES_WORD; i++) {
		uint64_t bits = bits_of(run->masks[i]), value, was;

		memcpy(&value, run->words + i * sizeof(value), sizeof(value));
		if (bits == UINT64_MAX) {
			atomic_store_explicit(&to[i], value, memory_order_release);
			continue;
		}
		was = atomic_load_explicit(&to[i], memory_order_relaxed);
		while (bits &&
		       !atomic_compare_exchange_weak(&to[i], &was, (was & ~bits) | (value & bits)))
			;
	}
}
