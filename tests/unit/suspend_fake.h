/*
 * tests/unit/suspend_fake.h - which sessions leave the GPU, and when, on a clock and with SESSIONS
 * sessions of the test's: the policy is compiled here once more, under other names.
 */
#ifndef CK_TESTS_SUSPEND_FAKE_H
#define CK_TESTS_SUSPEND_FAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/children/workers.h"
#include "server/door/disconnected_sessions.h"
#include "server/life/suspend.h"
#include "util/until.h"

static int64_t fake_now;
static struct cks_session_info sessions[SESSIONS];
static struct cks_terms granted[SESSIONS];
static struct cks_suspender suspender;
static unsigned int suspends[SESSIONS], explained[SESSIONS];
static char answers[SESSIONS]; /* the last word to each worker */
static bool busy, fits;
static size_t mute = SIZE_MAX; /* the worker of this session does not respond */

static size_t number_of(const struct cks_session_info *s)
{
	return (size_t)(s - sessions);
}

static struct cks_session_info *fake_next(const struct cks_workers *unused,
					  const struct cks_session_info *s)
{
	size_t i = s ? number_of(s) + 1 : 0;

	(void)unused;
	return i < SESSIONS ? &sessions[i] : NULL;
}

static bool fake_send(const struct cks_session_info *s, char kind)
{
	answers[number_of(s)] = kind;
	return true;
}

static json_t *fake_suspend(struct cks_suspender *unused, struct cks_session_info *s,
			    struct cks_suspend_wish wish, const struct cks_asker *asker)
{
	(void)unused;
	assert_null(asker);
	if (number_of(s) == mute)
		return json_object();
	s->suspension.to_park = wish.park;
	s->suspension.state = CK_PARKING;
	suspends[number_of(s)]++;
	busy = true;
	return NULL;
}

static void fake_explain(const struct cks_suspender *unused, struct cks_session_info *s)
{
	(void)unused;
	explained[number_of(s)]++;
}

static bool fake_fits(const struct cks_suspender *unused, uint64_t bytes)
{
	(void)unused;
	(void)bytes;
	return fits;
}

static const char *fake_name(const struct cks_session_info *s, char out[CK_SESSION_NAME])
{
	out[0] = (char)('0' + number_of(s));
	out[1] = '\0';
	return out;
}

#define ck_now_ms() fake_now
#define cks_workers_next fake_next
#define cks_workers_send fake_send
#define cks_session_terms(session) (&granted[number_of(session)])
#define cks_session_name fake_name
#define cks_suspend fake_suspend
#define cks_suspend_fits fake_fits
#define cks_suspender_busy(suspender) busy
#define cks_disconnected_give_way(workers, guest) false
#define cks_disconnected_ending(workers, identity) false
#define cks_suspend_policy_init policy_init
#define cks_suspend_policy(p) run_policy(p) /* the structure of this name stays */
#define cks_suspend_turn turn_of
#define cks_suspend_left has_left
#define cks_suspend_freed has_freed
#define cks_suspend_offer offer
#define cks_suspend_priority priority_of
#define cks_suspend_takes_turns takes_turns
#define cks_suspend_turn_ms turn_ms
#define cks_suspend_begin_turn begin_turn
#define cks_suspend_charge charge
#define cks_suspend_same_gpu same_gpu
#define cks_suspend_line_up line_up
#define cks_suspend_before goes_before
#define cks_suspend_first first_of
#define cks_suspend_explain fake_explain
void policy_init(struct cks_suspend_policy *policy, const struct cks_options *options);
int64_t run_policy(struct cks_suspender *p);
int64_t turn_of(const struct cks_suspender *p, const struct cks_session_info *s);
void has_left(struct cks_suspender *p, struct cks_session_info *s);
void has_freed(struct cks_suspender *p, const struct cks_session_info *s);
void offer(const struct cks_suspender *p, const struct cks_session_info *s);
int32_t priority_of(const struct cks_session_info *s);
bool takes_turns(const struct cks_suspender *p, const struct cks_session_info *s);
int64_t turn_ms(const struct cks_suspender *p, const struct cks_session_info *s,
		const struct cks_session_info *guest);
void begin_turn(struct cks_session_info *s);
void charge(struct cks_session_info *s, int64_t now);
bool same_gpu(const struct cks_session_info *a, const struct cks_session_info *b);
void line_up(struct cks_suspender *p, struct cks_session_info *s);
bool goes_before(const struct cks_suspender *p, const struct cks_session_info *a,
		 const struct cks_session_info *b);
struct cks_session_info *first_of(const struct cks_suspender *p,
				  const struct cks_session_info *with);
#include "server/life/suspend_policy.c"
#include "server/life/suspend_turns.c"

static inline int begin(void **unused)
{
	(void)unused;
	memset(sessions, 0, sizeof(sessions));
	memset(granted, 0, sizeof(granted));
	memset(&suspender, 0, sizeof(suspender));
	memset(suspends, 0, sizeof(suspends));
	memset(answers, 0, sizeof(answers));
	memset(explained, 0, sizeof(explained));
	fake_now = 1000000;
	busy = false;
	fits = true;
	mute = SIZE_MAX;
	for (size_t i = 0; i < SESSIONS; i++) {
		granted[i].idle = -1;
		sessions[i].pid = (pid_t)(100 + i);
		sessions[i].memory = 100;
		sessions[i].suspension.uses = 1;
		sessions[i].suspension.used = sessions[i].suspension.since = fake_now;
	}
	return 0;
}

static inline void use(size_t i)
{
	sessions[i].suspension.uses++;
	sessions[i].suspension.used = fake_now;
}

static inline void ask_for_memory(size_t i)
{
	sessions[i].suspension.memory_request = CK_MEMORY_REQUEST_ALONE;
	sessions[i].suspension.memory_requested_at = fake_now;
	answers[i] = 0;
}

static inline void leave(size_t i)
{
	sessions[i].suspension.state = CK_SUSPENDED;
	sessions[i].suspension.parked = sessions[i].suspension.to_park;
	sessions[i].suspension.since = fake_now;
	sessions[i].suspension.spared = 0;
	busy = false;
	has_left(&suspender, &sessions[i]);
}

static inline void find_no_room(size_t i)
{
	sessions[i].suspension.wanted = true;
	sessions[i].suspension.no_room = true;
	sessions[i].suspension.again = fake_now + 60000;
}

static inline unsigned int suspended(void)
{
	unsigned int sum = 0;

	for (size_t i = 0; i < SESSIONS; i++)
		sum += suspends[i];
	return sum;
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

#endif
