/*
 * server/children/command.c - the command line of workers.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "server/children/workers_part.h"
#include "server/processes/child.h"
#include "server/processes/messages.h"

static void append_option(struct cks_worker_command *c, const char *option, const char *value)
{
	if (!value)
		return;
	c->arguments[c->count++] = (char *)(uintptr_t)option;
	c->arguments[c->count++] = (char *)(uintptr_t)value;
}

void cks_command_fill(struct cks_worker_command *c, const struct cks_options *o, const char *driver,
		      const char *broker)
{
	*c = (struct cks_worker_command){.count = 0};
	/* the second one may become CK_SPARE_ARGUMENT */
	append_option(c, "cricket-rpc-server", CK_WORKER_ARGUMENT);
	append_option(c, "--driver", driver);
	append_option(c, "--token-file", o->token_file);
	append_option(c, "--cache-dir", o->cache_dir);
	append_option(c, "--cache-size", o->cache_size);
	append_option(c, "--policy", o->policy);
	append_option(c, "--pool-peers", o->pool_peers_text);
	for (size_t i = 0; i < o->listen_count; i++) /* for the peers of its sessions */
		append_option(c, "--listen", o->listen[i]);
	append_option(c, "--worker-users", o->worker_users_text);
	append_option(c, "--confine", o->confine);
	append_option(c, "--m3", broker);
	append_option(c, "--state-dir", o->state_dir);
	append_option(c, "--checkpoint-dir", o->checkpoint_dir); /* belongs to a limit */
	append_option(c, "--warm-devices", o->warm_devices);
	for (int i = 0; i < CK_LIMITS; i++) {
		snprintf(c->limits[i], sizeof(c->limits[i]), "--%s",
			 cks_limit_texts((enum cks_limit)i).name);
		append_option(c, c->limits[i], o->limits.given[i]);
	}
}

/* A spare gets /dev/null at 3, so that the number is taken. */
void cks_command_run(struct cks_worker_command *c, int connection, int control, char *const *prefix)
{
	if (connection < 0) {
		c->arguments[1] = (char *)CK_SPARE_ARGUMENT;
		connection = open("/dev/null", O_RDWR | O_CLOEXEC);
	}
	if (prefix)
		cks_child_execute_through(prefix, c->arguments, connection, control);
	cks_child_execute(c->arguments, connection, control);
}
