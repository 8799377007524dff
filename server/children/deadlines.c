/*
 * server/children/deadlines.c - see deadlines.h.
 */
#include <stdio.h>

#include "server/children/deadlines.h"
#include "server/children/workers.h"
#include "server/processes/session_info.h"
#include "server/rules/accounts.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_LOOK_MS 1000	     /* a session may begin, or be used, meanwhile */
#define CK_WARN_MS 300000    /* before the end, at most, */
#define CK_WARN_PART 5	     /* and at most this part of the time */
#define CK_STUBBORN_MS 10000 /* for a worker to end */

static void lower_next(int64_t *next, int64_t time)
{
	*next = ck_min(*next, time);
}

const char *cks_print_time(uint64_t seconds, char out[CK_TIME_TEXT])
{
	if (seconds >= 3600 && seconds % 3600 == 0)
		snprintf(out, CK_TIME_TEXT, "%lluh", (unsigned long long)seconds / 3600);
	else if (seconds >= 60 && seconds % 60 == 0)
		snprintf(out, CK_TIME_TEXT, "%llum", (unsigned long long)seconds / 60);
	else
		snprintf(out, CK_TIME_TEXT, "%llus", (unsigned long long)seconds);
	return out;
}

/* A time that ends a session. */
struct rule {
	uint64_t seconds; /* since @from */
	int64_t from;
	const char *words;
};

static int64_t end_of(const struct rule *rule)
{
	return rule->from + (int64_t)rule->seconds * 1000;
}

static int64_t warning_of(const struct rule *rule)
{
	return end_of(rule) -
	       ck_min((int64_t)CK_WARN_MS, (int64_t)rule->seconds * 1000 / CK_WARN_PART);
}

static void warn_session(struct cks_session_info *s, const struct rule *rule, int64_t now)
{
	char line[CK_NOTE_TEXT], left[CK_TIME_TEXT], time[CK_TIME_TEXT];
	int64_t ms = end_of(rule) - now;

	cks_print_time((uint64_t)(ms + 999) / 1000, left);
	snprintf(line, sizeof(line), "the session ends in %s: the policy ends sessions %s %s", left,
		 rule->words, cks_print_time(rule->seconds, time));
	cks_workers_send_line(s, line, false);
}

static void end_session(struct cks_session_info *s, const struct rule *rule, int64_t now)
{
	char line[CK_NOTE_TEXT], name[CK_SESSION_NAME], time[CK_TIME_TEXT];

	snprintf(line, sizeof(line), "the policy ends sessions %s %s", rule->words,
		 cks_print_time(rule->seconds, time));
	ck_info("session %s ends: %s", cks_session_name(s, name), line);
	snprintf(s->cause, sizeof(s->cause), "%s", line);
	cks_workers_send_line(s, line, true);
	s->deadline.ended = now;
}

/* @told: the session was warned of this end. */
static void apply_rule(struct cks_session_info *s, const struct rule *rule, bool *told, int64_t now,
		       int64_t *next)
{
	if (rule->seconds == 0 || s->deadline.ended)
		return;
	if (now >= end_of(rule)) {
		end_session(s, rule, now);
		return;
	}
	lower_next(next, end_of(rule));
	if (now < warning_of(rule)) {
		lower_next(next, warning_of(rule));
	} else if (!*told) {
		warn_session(s, rule, now);
		*told = true;
	}
}

static struct rule rule_of_age(const struct cks_session_info *s)
{
	return (struct rule){cks_session_terms(s)->time, s->use.begun, "after"};
}

static struct rule rule_of_rest(const struct cks_session_info *s)
{
	return (struct rule){cks_session_terms(s)->idle_end, s->suspension.used,
			     "that are idle for"};
}

int64_t cks_deadlines_left(const struct cks_session_info *s, int64_t now)
{
	const struct rule age = rule_of_age(s), rest = rule_of_rest(s);
	int64_t end = INT64_MAX;

	if (age.seconds > 0)
		lower_next(&end, end_of(&age));
	if (rest.seconds > 0)
		lower_next(&end, end_of(&rest));
	return end == INT64_MAX ? -1 : ck_max(end - now, (int64_t)0);
}

static void check_session(struct cks_session_info *s, int64_t now, int64_t *next)
{
	const struct rule age = rule_of_age(s), rest = rule_of_rest(s);
	bool told = s->deadline.idle == s->suspension.used;

	apply_rule(s, &age, &s->deadline.warned, now, next);
	apply_rule(s, &rest, &told, now, next);
	if (told)
		s->deadline.idle = s->suspension.used;
	if (!s->deadline.ended)
		return;
	if (now >= s->deadline.ended + CK_STUBBORN_MS) {
		cks_workers_kill(s);
		s->deadline.ended = now;
	}
	lower_next(next, s->deadline.ended + CK_STUBBORN_MS);
}

int64_t cks_deadlines_run(struct cks_workers *workers, const struct cks_accounts *accounts,
			  int64_t *again)
{
	int64_t now = ck_now_ms();
	struct cks_session_info *s = NULL;

	if (!cks_accounts_timed(accounts) || cks_workers_serving(workers) == 0)
		return -1;
	if (now >= *again) {
		*again = now + CK_LOOK_MS;
		while ((s = cks_workers_next(workers, s)) != NULL)
			check_session(s, now, again);
	}
	return ck_max(*again - now, (int64_t)1);
}
