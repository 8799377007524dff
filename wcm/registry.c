/*
 * wcm/registry.c - which groups a process has, and their contexts.
 */
#include <stddef.h>

#include "wcm/lib.h"

static pthread_mutex_t groups_lock = PTHREAD_MUTEX_INITIALIZER;
static wcm_group *groups;
static wcm_group *first; /* the process's current one */
static _Thread_local wcm_group *own;

/* --- which groups there are */

/* Lock held. */
static bool known(const wcm_group *g)
{
	const wcm_group *at = groups;

	while (at && at != g)
		at = at->next;
	return g && at;
}

bool ck_wcm_group_ok(const wcm_group *g)
{
	bool ok;

	pthread_mutex_lock(&groups_lock);
	ok = known(g);
	pthread_mutex_unlock(&groups_lock);
	return ok;
}

void ck_wcm_group_register(wcm_group *g)
{
	pthread_mutex_lock(&groups_lock);
	g->next = groups;
	groups = g;
	if (!first)
		first = g;
	pthread_mutex_unlock(&groups_lock);
	own = g;
}

bool ck_wcm_group_unregister(wcm_group *g)
{
	wcm_group **at = &groups;
	bool found;

	pthread_mutex_lock(&groups_lock);
	found = known(g);
	if (found) {
		while (*at != g)
			at = &(*at)->next;
		*at = g->next;
		if (first == g)
			first = NULL;
	}
	pthread_mutex_unlock(&groups_lock);
	return found;
}

wcm_group *wcm_current(void)
{
	wcm_group *found;

	pthread_mutex_lock(&groups_lock);
	found = known(own) ? own : first;
	pthread_mutex_unlock(&groups_lock);
	return found;
}

void wcm_set_current(wcm_group *g)
{
	own = g;
}

int wcm_rank(const wcm_group *g)
{
	return ck_wcm_group_ok(g) ? g->rank : WCM_EINVAL;
}

int wcm_size(const wcm_group *g)
{
	return ck_wcm_group_ok(g) ? g->size : WCM_EINVAL;
}

int wcm_device(const wcm_group *g)
{
	return ck_wcm_group_ok(g) ? g->device : WCM_EINVAL;
}

int wcm_backing_of(const wcm_group *g)
{
	return ck_wcm_group_ok(g) ? g->backing : WCM_EINVAL;
}

/* --- contexts */

int ck_wcm_enter(const wcm_group *g)
{
	return ck_wcm_status_of(g->driver->cuCtxPushCurrent_v2(g->context), "cuCtxPushCurrent");
}

void ck_wcm_leave(const wcm_group *g)
{
	CUcontext context;

	g->driver->cuCtxPopCurrent_v2(&context);
}
