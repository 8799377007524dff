/*
 * client/cupti/fetch.c - fetch records from the server; the clocks of both sides are read at the
 * beginning of the profile and at each flush.
 */
#include <stdlib.h>

#include "client/cupti/cupti.h"
#include "cricket.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

#define READINGS 8 /* of the clocks; the one with the shortest round trip counts */

/* --- clocks */

static CUresult read_clocks(struct ckc_cupti_sample *best)
{
	*best = (struct ckc_cupti_sample){.error = UINT64_MAX};
	for (int i = 0; i < READINGS; i++) {
		uint64_t began = ckc_cupti_clock(), ended;
		cuuint64_t remote = 0;
		CUresult err = ck_wire_profile_clock(0, &remote);

		if (err)
			return err;
		ended = ckc_cupti_clock();
		if ((ended - began) / 2 >= best->error)
			continue;
		best->local = began + (ended - began) / 2;
		best->remote = remote;
		best->error = (ended - began) / 2;
	}
	return CUDA_SUCCESS;
}

void ckc_cupti_clock_changed(struct ckc_client *c)
{
	struct ckc_cupti *s = c->cupti;

	if (s->before.remote == 0)
		return;
	s->now = (struct ckc_cupti_sample){0};
	s->rate = 0;
	read_clocks(&s->before);
}

/* --- kinds */

CUptiResult ckc_cupti_send_kinds(struct ckc_client *c)
{
	struct ckc_cupti *s = c->cupti;
	uint64_t kinds = atomic_load(&s->kinds);
	int result = CUPTI_SUCCESS;
	CUresult err;

	if (kinds == s->told)
		return CUPTI_SUCCESS;
	err = ck_wire_profile(0, kinds, &result);
	if (err || result) {
		ck_warn("no records of the GPU's work: %s",
			err ? "the server is too old for them"
			    : "the server has no CUPTI, or it does not start: see its log");
		return CUPTI_ERROR_NOT_INITIALIZED;
	}
	if (s->told == 0)
		read_clocks(&s->before);
	s->told = kinds;
	return CUPTI_SUCCESS;
}

/* --- records */

/* One reply's records; *@more: there are others. */
static CUresult fetch_piece(struct ckc_client *c, unsigned int flush, int *more)
{
	void *bytes = NULL;
	size_t size = 0;
	cuuint64_t dropped = 0;
	CUresult err = ck_wire_profile_fetch(0, flush, more, &dropped, &bytes, &size);

	if (!err) {
		ck_lock(&c->cupti->lock);
		c->cupti->dropped += dropped;
		ck_unlock(&c->cupti->lock);
		ckc_cupti_take_all(c, bytes, size);
		*more = *more && size > 0; /* or a server could keep the program here */
	}
	free(bytes);
	return err;
}

CUptiResult ckc_cupti_fetch(struct ckc_client *c, bool forced)
{
	struct ckc_cupti *s = c->cupti;
	unsigned int flush = forced ? 2 : 1;
	struct ckc_cupti_sample sample;
	int more = 1;
	CUresult err;

	if (s->before.remote == 0) /* the server has never been told of a kind */
		return CUPTI_SUCCESS;
	err = read_clocks(&sample);
	if (!err)
		ckc_cupti_clock_step(s, &sample);
	ck_debug("clocks: the server's is %lld ns behind, give or take %llu",
		 (long long)(s->now.local - s->now.remote), (unsigned long long)s->now.error);
	while (!err && more) {
		err = fetch_piece(c, flush, &more);
		flush = 0;
	}
	return err ? CUPTI_ERROR_UNKNOWN : CUPTI_SUCCESS;
}
