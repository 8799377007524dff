/*
 * util/log_limit.c - see log_limit.h.
 */
#include <string.h>

#include "util/log_limit.h"
#include "util/util.h"

#define CK_TRIES 1000 /* the lock is held for less than a microsecond */

static bool try_lock_limit(struct ck_log_limit *l)
{
	for (int i = 0; i < CK_TRIES; i++) {
		if (!atomic_flag_test_and_set_explicit(&l->busy, memory_order_acquire))
			return true;
	}
	return false;
}

static void unlock_limit(struct ck_log_limit *l)
{
	atomic_flag_clear_explicit(&l->busy, memory_order_release);
}

static struct ck_log_kind *find_kind(struct ck_log_limit *l, const char *format)
{
	for (size_t i = 0; i < CK_LOG_KINDS; i++) {
		if (l->kinds[i].format == format)
			return &l->kinds[i];
	}
	return NULL;
}

/* A place for a new kind: a free one, or that of the kind whose window has been over for
 * longest. */
static struct ck_log_kind *find_place(struct ck_log_limit *l, int64_t now)
{
	struct ck_log_kind *oldest = NULL;

	for (size_t i = 0; i < CK_LOG_KINDS; i++) {
		struct ck_log_kind *k = &l->kinds[i];

		if (!k->format)
			return k;
		if (k->held == 0 && now - k->since >= CK_LOG_WINDOW_MS &&
		    (!oldest || k->since < oldest->since))
			oldest = k;
	}
	return oldest;
}

static void begin_window(struct ck_log_kind *k, const char *format, int level, int64_t now)
{
	k->format = format;
	k->level = level;
	k->since = now;
	k->passed = k->held = 0;
}

/* Empty the count of @k, whose window has ended. */
static void take_held(struct ck_log_kind *k, int64_t now, struct ck_log_held *held)
{
	int64_t ms = ck_max(now - k->since, (int64_t)1000);

	held->count = k->held;
	held->seconds = (unsigned int)((ms + 500) / 1000);
	held->level = k->level;
	memcpy(held->text, k->text, sizeof(held->text));
	k->held = 0;
}

static bool admit_message(struct ck_log_limit *l, const char *format, int level, int64_t now,
			  struct ck_log_held *before)
{
	struct ck_log_kind *k = find_kind(l, format);

	if (!k) {
		k = find_place(l, now);
		if (!k)
			return true;
		begin_window(k, format, level, now);
		k->text[0] = '\0';
	} else if (now - k->since >= CK_LOG_WINDOW_MS) {
		take_held(k, now, before);
		begin_window(k, format, level, now);
	}
	if (k->passed == CK_LOG_BURST) {
		k->held++;
		return false;
	}
	k->passed++;
	return true;
}

bool ck_log_limit_pass(struct ck_log_limit *l, const char *format, int level, int64_t now_ms,
		       struct ck_log_held *before)
{
	bool may;

	before->count = 0;
	if (!try_lock_limit(l))
		return true;
	may = admit_message(l, format, level, now_ms, before);
	unlock_limit(l);
	return may;
}

void ck_log_limit_note(struct ck_log_limit *l, const char *format, const char *text, size_t size)
{
	struct ck_log_kind *k;

	if (!try_lock_limit(l))
		return;
	k = find_kind(l, format);
	if (k) {
		size = ck_min(size, sizeof(k->text) - 1);
		memcpy(k->text, text, size);
		k->text[size] = '\0';
	}
	unlock_limit(l);
}

bool ck_log_limit_take(struct ck_log_limit *l, int64_t now_ms, bool all, struct ck_log_held *held)
{
	held->count = 0;
	if (!try_lock_limit(l))
		return false;
	for (size_t i = 0; i < CK_LOG_KINDS && held->count == 0; i++) {
		struct ck_log_kind *k = &l->kinds[i];

		if (k->held > 0 && (all || now_ms - k->since >= CK_LOG_WINDOW_MS)) {
			take_held(k, now_ms, held);
			begin_window(k, k->format, k->level, now_ms);
		}
	}
	unlock_limit(l);
	return held->count > 0;
}

int64_t ck_log_limit_next(struct ck_log_limit *l, int64_t now_ms)
{
	int64_t next = -1;

	if (!try_lock_limit(l))
		return -1;
	for (size_t i = 0; i < CK_LOG_KINDS; i++) {
		const struct ck_log_kind *k = &l->kinds[i];
		int64_t in = ck_max(k->since + CK_LOG_WINDOW_MS - now_ms, (int64_t)0);

		if (k->held > 0 && (next < 0 || in < next))
			next = in;
	}
	unlock_limit(l);
	return next;
}
