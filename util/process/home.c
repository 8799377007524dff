/*
 * util/process/home.c - see home.h.
 */
#define _GNU_SOURCE
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/process/home.h"
#include "util/process/stack.h"

static void find_user(void *user)
{
	*(const struct passwd **)user = getpwuid(geteuid());
}

const char *ck_home(void)
{
	const char *home = secure_getenv("HOME");
	const struct passwd *user = NULL;

	if (home && *home == '/')
		return home;
	ck_stack_run(CK_NAMES_STACK, find_user, &user);
	return user && user->pw_dir && *user->pw_dir == '/' ? user->pw_dir : NULL;
}
