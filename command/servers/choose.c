/*
 * command/servers/choose.c - see choose.h.
 *
 * The choice is not a reservation: between a server's answer and the program's session, another
 * program may take the memory. So the address has a second choice, if there is one, and the server
 * checks the memory again when the session begins (CRICKET_NEED).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/servers/choose.h"
#include "command/servers/pick.h"
#include "util/until.h"

#define AGAIN_S 2 /* until servers that are full are asked again */

/* The chosen GPUs of one server, as in REMOTE_GPU_ADDRESS. */
static void print_part(FILE *out, const struct ckx_fleet *f, const struct ckx_part *p)
{
	const char *address = f->list[p->candidate]->server.address;

	fprintf(out, "%s%s", address, ck_address_path(address) ? "//" : "/");
	for (unsigned int i = 0; i < p->count; i++)
		fprintf(out, "%s%u", i ? "," : "", p->devices[i]);
}

static void print_pick(FILE *out, const struct ckx_fleet *f, const struct ckx_pick *pick)
{
	for (size_t i = 0; i < pick->count; i++) {
		if (i > 0)
			fputc(',', out);
		print_part(out, f, &pick->parts[i]);
	}
}

/* @second: for the case that the first one fails; it may be empty. */
static int make_choice(const struct ckx_fleet *f, const struct ckx_pick *first,
		       const struct ckx_pick *second, struct ckx_choice *choice)
{
	size_t size;
	FILE *out = open_memstream(&choice->address, &size);

	if (!out)
		return -ENOMEM;
	print_pick(out, f, first);
	if (second->count > 0) {
		fputc(CK_SERVERS_OR, out);
		print_pick(out, f, second);
	}
	choice->server = f->list[first->parts[0].candidate]->server;
	return fclose(out) == 0 ? 0 : -ENOMEM;
}

/* One attempt. -EBUSY: nothing fits now. */
static int try_once(struct ckx_fleet *f, const struct ckx_wish *w, struct ckx_choice *choice)
{
	struct ckx_need need = {.gpus = w->gpus, .memory = w->memory};
	struct ckx_pick first, second = {.count = 0};

	ckx_fleet_ask(f);
	if (ckx_pick(f, &need, NULL, &first)) {
		ckx_pick(f, &need, &first, &second);
		return make_choice(f, &first, &second, choice);
	}
	need.full = true;
	if (w->wait_seconds > 0 && ckx_pick(f, &need, NULL, &first))
		return make_choice(f, &first, &second, choice);
	return -EBUSY;
}

static void say_why(const struct ckx_fleet *f, const struct ckx_wish *w, const char *rest)
{
	ckx_error("%s %u GPU%s%s%s%s",
		  f->count == 1 ? "the server does not have" : "no server of the list has", w->gpus,
		  w->gpus == 1 ? "" : "s", w->text ? " with so much memory free: " : " to give",
		  w->text ? w->text : "", rest);
	for (size_t i = 0; i < f->count; i++) {
		const struct ckx_candidate *c = f->list[i];
		const struct ckx_offer *o = &c->offer;
		unsigned int fit = ckx_pick_fitting(c, w->memory);

		if (!o->answers)
			ckx_error("  %s: %s", c->server.address, o->why);
		else
			ckx_error("  %s: %u of %u GPUs%s%s", c->server.address, fit, o->count,
				  o->ready ? "" : "; ", o->ready ? "" : o->why);
	}
}

/* @source: the user's words. It is looked up again for each attempt, because files and DNS
 * change. */
static int attempt_choice(const struct ckx_server *source, const struct ckx_wish *w,
			  const char *rest, struct ckx_choice *choice)
{
	struct ckx_fleet *f = calloc(1, sizeof(*f));
	int ret = f ? ckx_fleet_find(source, f) : -ENOMEM;

	if (ret == 0)
		ret = try_once(f, w, choice);
	if (ret == -EBUSY && rest)
		say_why(f, w, rest);
	if (f)
		ckx_fleet_free(f);
	free(f);
	return ret;
}

int ckx_choose(const struct ckx_server *server, const struct ckx_wish *w, struct ckx_choice *choice)
{
	int64_t now = ck_now_ms(), until = now + (int64_t)w->wait_seconds * 1000;
	char waits[64] = "";
	int ret;

	if (w->wait_seconds)
		snprintf(waits, sizeof(waits), "; waiting for %llu s (--wait)",
			 (unsigned long long)w->wait_seconds);
	*choice = (struct ckx_choice){.address = NULL};
	ret = attempt_choice(server, w, waits, choice);
	while (ret == -EBUSY && ck_now_ms() < until) {
		bool last;

		sleep(AGAIN_S);
		last = ck_now_ms() >= until;
		ret = attempt_choice(server, w, last ? "; the time of --wait is over" : NULL,
				     choice);
	}
	now = ck_now_ms();
	choice->wait_seconds = now < until ? (uint64_t)(until - now + 999) / 1000 : 0;
	return ret;
}

int ckx_choose_check(const struct ckx_server *server, const struct ckx_wish *w)
{
	struct ckx_fleet *f = calloc(1, sizeof(*f));
	int ret = f ? ckx_fleet_add(f, server) : -ENOMEM;

	if (ret == 0) {
		ckx_fleet_ask(f);
		if (f->list[0]->offer.answers &&
		    ckx_pick_fitting(f->list[0], w->memory) < w->gpus) {
			say_why(f, w, "");
			ret = -EBUSY;
		}
	}
	if (f)
		ckx_fleet_free(f);
	free(f);
	return ret;
}
