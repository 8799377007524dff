/*
 * client/modules/answer_store.c - answers that earlier sessions of the program have learned.
 *
 * Most are about kernels. An answer of the driver about a kernel depends on the kernel's image, the
 * attributes that the program has set, the arguments of the question, and the server's driver and
 * devices. A question is named by a digest of the first three; the server vouches for the rest and
 * keeps the answers (server/modules/answer_store.h). With the reply to hello it sends what the
 * program asked for at its last starts, so that it need not ask again. If a question has no certain
 * name, the client asks it again.
 */
#include <stdlib.h>
#include <string.h>

#include "client/modules/code.h"
#include "client/modules/state.h"
#include "client/link/hooks.h"
#include "rpc/proc.h"
#include "util/hash.h"
#include "util/map.h"

#define DIGEST 16
#define KEY_MAX 6144 /* a question about clusters, with all attributes of a launch */

_Static_assert(DIGEST + sizeof(uint64_t) == CK_ANSWER, "a pair is a digest and an answer");

/* All that names a question, in the order of the digest. */
struct question {
	uint64_t device; /* the server's ordinal + 1; 0: of no context */
	uint64_t set;	 /* a bit for each attribute that the program has set */
	int32_t value[CU_FUNC_ATTRIBUTE_MAX];
	unsigned char image[CK_HASH]; /* content hash */
	struct ck_hash kernel;	      /* hash of the name */
	unsigned char key[KEY_MAX];   /* without ids; only the first bytes count */
};

static bool take_context(uint64_t id, struct question *q)
{
	const struct ckc_context *ctx = ckc_object_by_id(CK_OBJECT_CONTEXT, id);
	int ordinal;

	if (id == 0)
		return true;
	if (!ctx || ctx->green || ckc_device_id(ctx->device, &ordinal))
		return false; /* a green context has a part of the device */
	q->device = (uint64_t)ordinal + 1;
	return true;
}

static bool take_function(uint64_t id, struct question *q)
{
	const struct ck_function *f = ckc_object_by_id(CK_OBJECT_FUNCTION, id);

	if (!f || f->module->tuned)
		return false;
	q->set = f->set;
	for (int i = 0; i < CU_FUNC_ATTRIBUTE_MAX; i++) {
		if (f->set & 1u << i)
			q->value[i] = f->value[i];
	}
	memcpy(q->image, f->module->code->hash, sizeof(q->image));
	ck_hash(f->kernel->name, strlen(f->kernel->name), &q->kernel);
	return true;
}

/* False: the question is not of those that can be recalled. */
static bool name_question(const void *key, size_t size, unsigned char digest[DIGEST])
{
	uint64_t words[4] = {0};
	const struct ck_proc *proc;
	struct question *q;
	struct ck_hash hash;
	unsigned int at;
	bool named;

	if (size > KEY_MAX)
		return false;
	memcpy(words, key, ck_min(size, sizeof(words)));
	proc = ck_proc((uint32_t)words[0]);
	q = proc && proc->recall ? calloc(1, sizeof(*q))
				 : NULL; /* threads may have a stack of 16 KiB */
	if (!q)
		return false;
	at = proc->function;
	named = take_context(words[1], q) && (at == 0 || take_function(words[at], q));
	if (named) {
		memcpy(q->key, key, size);
		memset(q->key + sizeof(uint64_t), 0, sizeof(uint64_t));
		if (at > 0)
			memset(q->key + (size_t)at * sizeof(uint64_t), 0, sizeof(uint64_t));
		ck_hash(q, offsetof(struct question, key) + size, &hash);
		memcpy(digest, hash.bytes, DIGEST);
	}
	free(q);
	return named;
}

/* Index the answers that came with hello. Call with the lock held. */
static void index_answers(struct ckc_client *c, struct ckc_recall *r)
{
	const char *pairs = c->offers.recalled.recalled_val;
	size_t count = c->offers.recalled.recalled_len / CK_ANSWER;

	r->indexed = true;
	r->answers = count > 0 ? ck_map_create() : NULL;
	for (size_t i = 0; r->answers && i < count; i++, pairs += CK_ANSWER)
		ck_map_insert(r->answers, pairs, DIGEST, (void *)(uintptr_t)pairs);
}

static bool find_answer(const unsigned char digest[DIGEST], uint64_t *answer)
{
	struct ckc_client *c = ckc_client_current();
	struct ckc_recall *r = &c->modules->recall;
	const char *pair;

	ck_lock(&r->lock);
	if (!r->indexed)
		index_answers(c, r);
	pair = r->answers ? ck_map_find(r->answers, digest, DIGEST) : NULL;
	ck_unlock(&r->lock);
	if (pair)
		memcpy(answer, pair + DIGEST, sizeof(*answer));
	return pair != NULL;
}

/* Little-endian: the lowest bytes of the answer are an int, or all of a size_t. */
static bool recall_answer(const void *key, size_t key_size, void *value, size_t value_size)
{
	unsigned char digest[DIGEST];
	uint64_t answer;

	if (ckc_client_current()->offers.recalled.recalled_len == 0 ||
	    value_size > sizeof(answer) || !name_question(key, key_size, digest) ||
	    !find_answer(digest, &answer))
		return false;
	memcpy(value, &answer, value_size);
	return true;
}

static void report_answer(const void *key, size_t key_size, const void *value, size_t value_size)
{
	struct ckc_client *c = ckc_client_current();
	unsigned char pair[CK_ANSWER] = {0};

	if (value_size > CK_ANSWER - DIGEST || !ckc_session_offers(c, CK_PROC_learned) ||
	    !name_question(key, key_size, pair))
		return;
	memcpy(pair + DIGEST, value, value_size);
	ck_wire_learned(0, pair, sizeof(pair));
}
CK_HOOK(recall, recall, recall_answer, report_answer);
