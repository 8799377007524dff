/*
 * slurm/settings.c - see settings.h.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "slurm/settings.h"

#define CLIENT "/usr/local/lib/cricket/cricket-client.so"
#define COMMAND "/usr/local/bin/cricket"
#define WAIT_S 60
#define WAIT_MAX_S 3600

static int set_path(char *out, size_t room, const char *name, const char *value,
		    struct ck_slurm_why *why)
{
	size_t size = strlen(value);

	if (value[0] != '/' || size >= room)
		return ck_slurm_fail(why, -EINVAL,
				     "%s%s: give an absolute path of at most %zu characters", name,
				     value, room - 1);
	memcpy(out, value, size + 1);
	return 0;
}

static int set_wait(unsigned int *out, const char *value, struct ck_slurm_why *why)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	if (!isdigit((unsigned char)value[0]) || *end || n > WAIT_MAX_S)
		return ck_slurm_fail(why, -EINVAL, "wait=%s: give seconds, 0 to %d", value,
				     WAIT_MAX_S);
	*out = (unsigned int)n;
	return 0;
}

static int set_option(struct ck_slurm_settings *settings, const char *word,
		      struct ck_slurm_why *why)
{
	if (strncmp(word, "dir=", 4) == 0)
		return set_path(settings->dir, sizeof(settings->dir), "dir=", word + 4, why);
	if (strncmp(word, "client=", 7) == 0)
		return set_path(settings->client, sizeof(settings->client), "client=", word + 7,
				why);
	if (strncmp(word, "command=", 8) == 0)
		return set_path(settings->command, sizeof(settings->command), "command=", word + 8,
				why);
	if (strncmp(word, "wait=", 5) == 0)
		return set_wait(&settings->wait, word + 5, why);
	return ck_slurm_fail(why, -EINVAL, "%s: not dir=, client=, command= or wait=", word);
}

int ck_slurm_settings_parse(int ac, char **av, struct ck_slurm_settings *settings,
			    struct ck_slurm_why *why)
{
	int ret = 0;

	memset(settings, 0, sizeof(*settings));
	snprintf(settings->client, sizeof(settings->client), "%s", CLIENT);
	snprintf(settings->command, sizeof(settings->command), "%s", COMMAND);
	settings->wait = WAIT_S;
	for (int i = 0; ret == 0 && i < ac; i++)
		ret = set_option(settings, av[i], why);
	if (ret == 0 && !settings->dir[0])
		ret = ck_slurm_fail(why, -EINVAL,
				    "plugstack.conf: give dir=FOLDER, which all nodes can access");
	return ret;
}
