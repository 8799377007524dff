/*
 * server/helpers/gpu_map.c - see gpu_map.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/helpers/gpu_map.h"
#include "util/util.h"
#include "util/uuid.h"

#define NO_GOAL (-1)

/* --- the machine */

static int ordinal_of(const struct cks_manifest_gpu *all, const char *uuid)
{
	for (size_t i = 0; i < all->count; i++) {
		if (strcmp(all->devices[i].uuid, uuid) == 0)
			return (int)i;
	}
	return -1;
}

/* False: the driver gives its GPUs no proper UUIDs. */
static bool add_gpu(struct cks_machine *machine, const struct cks_manifest_device *device,
		    int ordinal, bool allowed)
{
	struct cks_machine_gpu *g = &machine->gpus[machine->count];

	*g = (struct cks_machine_gpu){.ordinal = ordinal, .allowed = allowed};
	snprintf(g->name, sizeof(g->name), "%s", device->name);
	if (ordinal < 0 || !ck_uuid_parse(device->uuid, g->uuid))
		return false;
	machine->count++;
	return true;
}

int cks_machine_fill(struct cks_machine *machine, const struct cks_manifest_gpu *all,
		     const struct cks_manifest_gpu *visible, const struct cks_manifest_gpu *allowed,
		     struct cks_why *why)
{
	bool ok = true;

	machine->count = 0;
	if (all->count > CK_MAP_GPUS || visible->count > all->count)
		return cks_why_set(why, ERANGE, "the machine has more than %d GPUs", CK_MAP_GPUS);
	for (size_t i = 0; i < visible->count && ok; i++) {
		const struct cks_manifest_device *d = &visible->devices[i];

		ok = add_gpu(machine, d, ordinal_of(all, d->uuid),
			     cks_manifest_names(allowed, d->uuid));
	}
	machine->visible = machine->count;
	for (size_t i = 0; i < all->count && ok; i++) {
		if (!cks_manifest_names(visible, all->devices[i].uuid))
			ok = machine->count < CK_MAP_GPUS &&
			     add_gpu(machine, &all->devices[i], (int)i,
				     cks_manifest_names(allowed, all->devices[i].uuid));
	}
	return ok ? 0 : cks_why_set(why, ERANGE, "the driver does not name its GPUs by UUID");
}

/* --- the plan */

static int find_uuid(const struct cks_machine *here, const unsigned char uuid[16])
{
	for (size_t i = 0; i < here->count; i++) {
		if (memcmp(here->gpus[i].uuid, uuid, 16) == 0)
			return (int)i;
	}
	return NO_GOAL;
}

static void depart_here(const struct cks_machine *here, struct cks_gpu_plan *plan)
{
	plan->count = here->count;
	for (size_t i = 0; i < here->count; i++)
		memcpy(plan->there[i], here->gpus[i].uuid, 16);
}

/* The list of UUIDs, with commas. */
static int depart_there(const char *list, struct cks_gpu_plan *plan, struct cks_why *why)
{
	char text[CK_UUID_TEXT];
	size_t size;

	for (plan->count = 0; *list; plan->count++) {
		size = strcspn(list, ",");
		snprintf(text, sizeof(text), "%.*s", (int)size, list);
		if (plan->count == CK_MAP_GPUS || !ck_uuid_parse(text, plan->there[plan->count]))
			return cks_why_set(why, EINVAL, "the GPUs that it left are not known");
		list += size + (list[size] == ',');
	}
	return 0;
}

static void mark_used(const uint32_t *marks, struct cks_gpu_plan *plan)
{
	for (size_t i = 0; i < plan->count; i++) {
		uint32_t mark = cks_uuid_mark(plan->there[i]);

		plan->used[i] = false;
		for (size_t k = 0; k < CK_NOTE_GPUS; k++)
			plan->used[i] |= marks[k] == mark;
		plan->goal[i] = NO_GOAL;
	}
}

/* The only GPU that it uses. */
static int only_used(const struct cks_gpu_plan *plan, int *only, struct cks_why *why)
{
	char list[CK_MAP_GPUS * 4] = "";
	size_t n = 0, used = 0;

	for (size_t i = 0; i < plan->count; i++) {
		if (!plan->used[i])
			continue;
		*only = (int)i;
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%zu", used ? ", " : "", i);
		used++;
	}
	if (used == 0)
		return cks_why_set(why, EINVAL, "it uses no GPU yet");
	if (used > 1)
		return cks_why_set(why, EINVAL, "it uses GPUs %s: name each, as in 0=2,1=3", list);
	return 0;
}

static int set_goal(const struct cks_machine *here, unsigned long from, unsigned long to,
		    struct cks_gpu_plan *plan, struct cks_why *why)
{
	if (from >= plan->count)
		return cks_why_set(why, EINVAL, "it did not use GPU %lu", from);
	if (to >= here->visible)
		return cks_why_set(why, EINVAL, "the server has no GPU %lu", to);
	for (size_t i = 0; i < plan->count; i++) {
		if (plan->goal[i] == (int)to || (i == from && plan->goal[i] != NO_GOAL))
			return cks_why_set(why, EINVAL, "a GPU is named twice");
	}
	plan->goal[from] = (int)to;
	return 0;
}

/* A number at *@at, which is moved behind it; false: there is none. */
static bool take_number(const char **at, unsigned long *number)
{
	char *end;

	if (**at < '0' || **at > '9')
		return false;
	*number = strtoul(*at, &end, 10);
	*at = end;
	return true;
}

static int read_goal(const struct cks_machine *here, const char *text, struct cks_gpu_plan *plan,
		     struct cks_why *why)
{
	unsigned long from, to;
	const char *at = text;
	int only = 0, ret;

	if (take_number(&at, &to) && !*at) {
		ret = only_used(plan, &only, why);
		return ret < 0 ? ret : set_goal(here, (unsigned long)only, to, plan, why);
	}
	at = text;
	do {
		if (!take_number(&at, &from) || *at++ != '=' || !take_number(&at, &to))
			return cks_why_set(why, EINVAL,
					   "a device is a number, or a list as in 0=1,1=0");
		ret = set_goal(here, from, to, plan, why);
	} while (ret == 0 && *at++ == ',');
	if (ret == 0 && at[-1])
		return cks_why_set(why, EINVAL, "a device is a number, or a list as in 0=1,1=0");
	return ret;
}

static bool is_goal(const struct cks_gpu_plan *plan, int goal)
{
	for (size_t i = 0; i < plan->count; i++) {
		if (plan->goal[i] == goal)
			return true;
	}
	return false;
}

/* The default target of GPU @i of the session: the same GPU; on another machine, the one with the
 * same number. */
static int old_place(const struct cks_machine *here, const struct cks_gpu_plan *plan, size_t i)
{
	int own = find_uuid(here, plan->there[i]);

	return own == NO_GOAL ? (int)i : own;
}

/* The model of a GPU that it left. On another machine, GPUs of the same number are of the same
 * model (cks_manifest_fits). */
static const char *model_of(const struct cks_machine *here, const struct cks_gpu_plan *plan,
			    size_t i)
{
	return here->gpus[old_place(here, plan, i)].name;
}

/* May GPU @i of the session take place @goal? Without a request, a session of this server keeps its
 * GPU. */
static bool gpu_suits(const struct cks_machine *here, const struct cks_gpu_plan *plan, size_t i,
		      int goal)
{
	const struct cks_machine_gpu *g = &here->gpus[goal];

	return !is_goal(plan, goal) &&
	       (!plan->used[i] || !plan->arrives ||
		(g->allowed && strcmp(g->name, model_of(here, plan, i)) == 0));
}

/* Could the GPU of place @goal still stay there? */
static bool is_awaited(const struct cks_machine *here, const struct cks_gpu_plan *plan, int goal)
{
	for (size_t i = 0; i < plan->count; i++) {
		if (plan->goal[i] == NO_GOAL &&
		    memcmp(plan->there[i], here->gpus[goal].uuid, 16) == 0)
			return true;
	}
	return false;
}

/* The next place that suits GPU @i, from its own number on; @gentle: one that is no other's own. */
static int next_place(const struct cks_machine *here, const struct cks_gpu_plan *plan, size_t i,
		      bool gentle)
{
	for (size_t k = 0; k < here->count; k++) {
		int goal = (int)((i + k) % here->count);

		if (gpu_suits(here, plan, i, goal) && !(gentle && is_awaited(here, plan, goal)))
			return goal;
	}
	return NO_GOAL;
}

/*
 * The GPUs that no wish names, first those that the session uses: they stay where they may, else
 * change with one that comes, else take any place that suits. On another machine each has the same
 * number.
 */
static void fill_rest(const struct cks_machine *here, struct cks_gpu_plan *plan, bool used)
{
	for (size_t i = 0; i < plan->count; i++) {
		int own = find_uuid(here, plan->there[i]);

		if (plan->used[i] == used && plan->goal[i] == NO_GOAL && own != NO_GOAL &&
		    gpu_suits(here, plan, i, own))
			plan->goal[i] = own;
	}
	for (int gentle = 1; gentle >= 0; gentle--) {
		for (size_t i = 0; i < plan->count; i++) {
			if (plan->used[i] == used && plan->goal[i] == NO_GOAL)
				plan->goal[i] = next_place(here, plan, i, gentle);
		}
	}
}

/* The error for a GPU without a place says why it may not have its old one. */
static int check_used(const struct cks_machine *here, const struct cks_gpu_plan *plan,
		      struct cks_why *why)
{
	for (size_t i = 0; i < plan->count; i++) {
		int place = plan->goal[i] == NO_GOAL ? old_place(here, plan, i) : plan->goal[i];
		const struct cks_machine_gpu *goal = &here->gpus[place];

		if (!plan->used[i])
			continue;
		if (!goal->allowed && place >= (int)here->visible)
			return cks_why_set(why, EACCES, "its GPU would not be one of the server's");
		if (!goal->allowed)
			return cks_why_set(why, EACCES,
					   "the policy does not allow it to use GPU %d", place);
		if (strcmp(goal->name, model_of(here, plan, i)) != 0)
			return cks_why_set(why, EXDEV, "GPU %d is a %s, and it needs a %s", place,
					   goal->name, model_of(here, plan, i));
		if (plan->goal[i] == NO_GOAL)
			return cks_why_set(why, EXDEV, "no GPU is left for its GPU %zu", i);
	}
	return 0;
}

int cks_gpu_plan_make(const struct cks_machine *here, const struct cks_gpu_wish *wish,
		      struct cks_gpu_plan *plan, struct cks_why *why)
{
	int ret = 0;

	plan->arrives = wish->there[0];
	if (plan->arrives)
		ret = depart_there(wish->there, plan, why);
	else
		depart_here(here, plan);
	if (ret == 0 && plan->count > here->count)
		ret = cks_why_set(why, EXDEV, "it needs %zu GPUs; here are %zu", plan->count,
				  here->count);
	if (ret < 0)
		return ret;
	mark_used(wish->marks, plan);
	if (wish->goal[0])
		ret = read_goal(here, wish->goal, plan, why);
	if (ret < 0)
		return ret;
	fill_rest(here, plan, true);
	fill_rest(here, plan, false);
	return check_used(here, plan, why);
}

void cks_gpu_plan_fill_map(const struct cks_gpu_plan *plan, const struct cks_machine *here,
			   struct cks_device_map *map)
{
	bool moves = false;

	*map = (struct cks_device_map){.count = (uint32_t)plan->count};
	for (size_t i = 0; i < plan->count; i++) {
		memcpy(map->pairs[i].was, plan->there[i], 16);
		memcpy(map->pairs[i].is, here->gpus[plan->goal[i]].uuid, 16);
		moves |= memcmp(map->pairs[i].was, map->pairs[i].is, 16) != 0;
	}
	if (!moves)
		map->count = 0;
}

int cks_gpu_plan_place(const struct cks_gpu_plan *plan, const struct cks_machine *here)
{
	int place = -1;

	for (size_t i = 0; i < plan->count; i++) {
		if (!plan->used[i])
			continue;
		if (place >= 0 || plan->goal[i] >= (int)here->visible)
			return -1;
		place = plan->goal[i];
	}
	return place;
}
