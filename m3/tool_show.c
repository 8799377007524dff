/*
 * m3/tool_show.c - the commands of m3 that print the broker's objects: ls, stat, quota, topo. Each
 * makes a JSON document, which is printed with --json, and as text otherwise.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "m3/tool.h"
#include "util/util.h"

static const char *state_name(uint32_t state)
{
	static const char *const names[] = {"creating", "live",	    "sealed",
					    "unlinked", "draining", "freed"};

	return state < CK_ARRAY_SIZE(names) ? names[state] : "?";
}

/* Names are bytes, but JSON is UTF-8. */
static json_t *make_json_string(const char *bytes)
{
	json_t *string = json_string(bytes);

	return string ? string : json_string("?");
}

static const char *text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static long long number_of(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

/* The own reference of the command that asks is none of @refs. */
static json_t *region_of(const m3_info *i, uint32_t refs)
{
	char rid[32], mode[8];

	snprintf(rid, sizeof(rid), "%#llx", (unsigned long long)i->rid);
	snprintf(mode, sizeof(mode), "%04o", i->mode & 07777);
	return json_pack("{s:s, s:o, s:o, s:I, s:i, s:i, s:s, s:s, s:i, s:i, s:f}", "region", rid,
			 "name", make_json_string(i->mem_id), "owner", make_json_string(i->owner),
			 "bytes", (json_int_t)i->bytes, "device", i->device, "stripes",
			 (int)i->stripes, "mode", mode, "state", state_name(i->state), "refs",
			 (int)refs, "maps", (int)i->maps, "age", (double)i->age_ms / 1000);
}

/* --- ls */

static int add_region(const m3_info *i, void *data)
{
	json_array_append_new(data, region_of(i, i->refs));
	return 0;
}

static json_t *ask_ls(m3_client *c, int argc, char **argv)
{
	json_t *list = json_array();
	int status = m3_list(c, argc ? argv[0] : NULL, add_region, list);

	if (status == M3_OK)
		return list;
	json_decref(list);
	ck_m3_tool_failed("ls", status);
	return NULL;
}

static void print_ls(const json_t *list)
{
	const json_t *r;
	size_t i;

	printf("%-18s %12s %3s %4s %4s %-8s %-10s %s\n", "region", "bytes", "dev", "refs", "maps",
	       "state", "owner", "name");
	json_array_foreach(list, i, r)
	{
		printf("%#018llx %12lld %3lld %4lld %4lld %-8s %-10s %s\n",
		       strtoull(text_of(r, "region"), NULL, 16), number_of(r, "bytes"),
		       number_of(r, "device"), number_of(r, "refs"), number_of(r, "maps"),
		       text_of(r, "state"), text_of(r, "owner"), text_of(r, "name"));
	}
}

/* --- stat */

static json_t *ask_stat(m3_client *c, int argc, char **argv)
{
	m3_region *r;
	m3_info i;
	int status;

	(void)argc;
	if (ck_m3_tool_open(c, argv[0], M3_READ, &r))
		return NULL;
	status = m3_stat(r, &i);
	m3_release(r);
	if (status == M3_OK)
		return region_of(&i, i.refs - 1);
	ck_m3_tool_failed(argv[0], status);
	return NULL;
}

static void print_stat(const json_t *r)
{
	static const char *const names[] = {"region",  "name", "owner", "bytes", "device",
					    "stripes", "mode", "state", "refs",	 "maps"};

	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		if (text_of(r, names[i]))
			printf("%-7s %s\n", names[i], text_of(r, names[i]));
		else
			printf("%-7s %lld\n", names[i], number_of(r, names[i]));
	}
	printf("%-7s %.1f s\n", "age", json_real_value(json_object_get(r, "age")));
}

/* --- quota: [PRINCIPAL [BYTES [REGIONS]]] */

static json_t *ask_quota(m3_client *c, int argc, char **argv)
{
	uint64_t bytes = 0, regions = 0, used, used_regions;
	const char *who = argc ? argv[0] : NULL;
	int status;

	if (who && ck_m3_tool_principal(who))
		return NULL;
	status = m3_quota_get(c, who, &bytes, &regions, &used, &used_regions);
	if (status == M3_OK && argc > 1) {
		if (ck_m3_tool_number(argv[1], &bytes) ||
		    (argc > 2 && ck_m3_tool_number(argv[2], &regions)))
			return NULL;
		status = m3_quota_set(c, who, bytes, regions);
	}
	if (status == M3_OK)
		return json_pack("{s:I, s:I, s:I, s:I}", "used", (json_int_t)used, "bytes",
				 (json_int_t)bytes, "used_regions", (json_int_t)used_regions,
				 "regions", (json_int_t)regions);
	ck_m3_tool_failed("quota", status);
	return NULL;
}

static void print_quota(const json_t *q)
{
	printf("bytes %lld of %lld, regions %lld of %lld (0: no limit)\n", number_of(q, "used"),
	       number_of(q, "bytes"), number_of(q, "used_regions"), number_of(q, "regions"));
}

/* --- topo */

static json_t *device_of(const m3_topo *t, int index)
{
	const struct m3_topo_device *d = &t->devices[index];
	json_t *peers = json_array(), *links = json_array();

	for (int j = 0; j < t->count; j++) {
		if (d->peers >> j & 1)
			json_array_append_new(peers, json_integer(j));
		if (d->peers >> j & d->links >> j & 1)
			json_array_append_new(links, json_integer(j));
	}
	return json_pack("{s:i, s:I, s:I, s:i, s:i, s:i, s:o, s:o}", "device", index, "bytes",
			 (json_int_t)d->bytes, "used", (json_int_t)d->used, "vmm", (int)d->vmm,
			 "fd", (int)d->fd, "fabric", (int)d->fabric, "peers", peers, "links",
			 links);
}

static json_t *ask_topo(m3_client *c, int argc, char **argv)
{
	json_t *list;
	m3_topo t;
	int status = m3_topology(c, &t);

	(void)argc;
	(void)argv;
	if (status) {
		ck_m3_tool_failed("topo", status);
		return NULL;
	}
	list = json_array();
	for (int i = 0; i < t.count; i++)
		json_array_append_new(list, device_of(&t, i));
	return list;
}

static bool list_has_number(const json_t *list, const json_t *number)
{
	const json_t *n;
	size_t i;

	json_array_foreach(list, i, n)
	{
		if (json_equal(n, number))
			return true;
	}
	return false;
}

static void print_topo(const json_t *list)
{
	const json_t *d, *peer;
	size_t i, j;

	json_array_foreach(list, i, d)
	{
		printf("device %lld: %lld bytes, %lld used here; vmm %lld fd %lld fabric %lld; "
		       "peers",
		       number_of(d, "device"), number_of(d, "bytes"), number_of(d, "used"),
		       number_of(d, "vmm"), number_of(d, "fd"), number_of(d, "fabric"));
		json_array_foreach(json_object_get(d, "peers"), j, peer)
		{
			printf(" %lld%s", (long long)json_integer_value(peer),
			       list_has_number(json_object_get(d, "links"), peer) ? "(link)" : "");
		}
		putchar('\n');
	}
}

static const struct show {
	const char *name;
	json_t *(*ask)(m3_client *client, int argc, char **argv); /* NULL: failed, printed */
	void (*print)(const json_t *document);
} shows[] = {
	{"ls", ask_ls, print_ls},
	{"stat", ask_stat, print_stat},
	{"quota", ask_quota, print_quota},
	{"topo", ask_topo, print_topo},
};

int ck_m3_tool_show(m3_client *c, const char *name, bool json, int argc, char **argv)
{
	const struct show *show = shows;
	json_t *document;

	while (strcmp(show->name, name) != 0)
		show++;
	document = show->ask(c, argc, argv);
	if (!document)
		return 1;
	if (json) {
		json_dumpf(document, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
		putchar('\n');
	} else {
		show->print(document);
	}
	json_decref(document);
	return 0;
}
