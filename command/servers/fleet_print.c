/*
 * command/servers/fleet_print.c - the offers of servers, as a table and as JSON; see fleet.h.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "command/servers/fleet.h"

#define SHOWN 8 /* GPUs whose free memory is in a line */
#define GIB 1073741824.0

static const char *state_of(const struct ckx_offer *o)
{
	if (o->admission == CKX_ADMISSION_DENIED || o->error == -EACCES)
		return "refused";
	if (!o->answers)
		return o->error < 0 ? "missing" : "failed";
	if (o->ready)
		return "ready";
	return o->most == 0 ? "stopping" : "full";
}

static json_t *describe_gpu(const struct ckx_offer_gpu *g, unsigned int index)
{
	json_t *json = json_pack("{s:i, s:s, s:I, s:I, s:i}", "index", (int)index, "name", g->name,
				 "memory", (json_int_t)g->memory, "free", (json_int_t)g->free,
				 "programs", (int)g->programs);

	if (g->utilization >= 0)
		json_object_set_new(json, "utilization", json_real(g->utilization / 100.0));
	return json;
}

static json_t *describe_candidate(const struct ckx_candidate *c)
{
	const struct ckx_offer *o = &c->offer;
	json_t *gpus = json_array(), *json;

	for (unsigned int i = 0; i < o->count; i++)
		json_array_append_new(gpus, describe_gpu(&o->gpus[i], i));
	json = json_pack("{s:s, s:s*, s:i, s:s, s:b, s:b}", "address", c->server.address, "name",
			 c->server.name[0] ? c->server.name : NULL, "priority", (int)c->priority,
			 "state", state_of(o), "ok", o->answers, "ready", o->ready);
	if (o->why[0])
		json_object_set_new(json, "why", json_string(o->why));
	if (o->answers)
		json_object_update_new(json, json_pack("{s:s, s:i, s:i, s:i, s:O}", "release",
						       o->release, "sessions", (int)o->sessions,
						       "max_sessions", (int)o->most, "waiting",
						       (int)o->waiting, "gpus", gpus));
	json_decref(gpus);
	return json;
}

void ckx_fleet_print_json(const struct ckx_fleet *f)
{
	json_t *list = json_array();

	for (size_t i = 0; i < f->count; i++)
		json_array_append_new(list, describe_candidate(f->list[i]));
	json_dumpf(list, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(list);
}

/* The free memory of each GPU, in GiB. */
static void print_gpus(const struct ckx_offer *o)
{
	for (unsigned int i = 0; i < o->count && i < SHOWN; i++)
		printf("%s%.1f", i ? " " : "", (double)o->gpus[i].free / GIB);
	if (o->count > SHOWN)
		printf(" ... (%u)", o->count);
	putchar('\n');
}

void ckx_fleet_print(const struct ckx_fleet *f)
{
	printf("%-32s %-9s %11s %7s  %s\n", "SERVER", "STATE", "SESSIONS", "WAITING",
	       "GIB FREE, OF EACH GPU");
	for (size_t i = 0; i < f->count; i++) {
		const struct ckx_offer *o = &f->list[i]->offer;
		const char *address = f->list[i]->server.address;

		printf("%-32s %-9s ", address[0] ? address : "this host", state_of(o));
		if (!o->answers) {
			printf("%11s %7s  %s\n", "", "", o->why);
			continue;
		}
		printf("%5u/%-5u %7u  ", o->sessions, o->most, o->waiting);
		print_gpus(o);
	}
}
