/*
 * util/process/home.c - see home.h.
 */
#define _GNU_SOURCE
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/process/home.h"

const char *ck_home(void)
{
	const char *home = secure_getenv("HOME");
	const struct passwd *user;

	if (home && *home == '/')
		return home;
	user = getpwuid(geteuid());
	return user && user->pw_dir && *user->pw_dir == '/' ? user->pw_dir : NULL;
}
