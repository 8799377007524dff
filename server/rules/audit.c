/*
 * server/rules/audit.c - see audit.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/processes/state.h"
#include "server/rules/audit.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

struct cks_audit {
	char *path;
	int fd;
	bool required;
	bool torn;	   /* the file ends inside of a line */
	bool failing;	   /* the last event could not be written */
	unsigned int lost; /* events since then */
};

/* Without O_NONBLOCK, a pipe without a reader would stop the server. A link may lead to another's
 * file. */
static int open_file(const char *path)
{
	int fd =
		open(path,
		     O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW,
		     0600);

	return fd < 0 ? -errno : fd;
}

const char *cks_audit_reason(int error)
{
	return error == -ELOOP ? "it is a symbolic link" : strerror(-error);
}

int cks_audit_open(const char *path, bool required, struct cks_audit **out)
{
	struct cks_audit *a;
	int fd;

	*out = NULL;
	if (!path)
		return 0;
	fd = open_file(path);
	if (fd < 0) {
		ck_err("audit log %s: %s", path, cks_audit_reason(fd));
		return fd;
	}
	a = calloc(1, sizeof(*a));
	if (a)
		a->path = strdup(path);
	if (!a || !a->path) {
		free(a);
		close(fd);
		return -ENOMEM;
	}
	a->fd = fd;
	a->required = required;
	*out = a;
	return 0;
}

void cks_audit_close(struct cks_audit *a)
{
	if (!a)
		return;
	close(a->fd);
	free(a->path);
	free(a);
}

int cks_audit_reopen(struct cks_audit *a)
{
	int fd;

	if (!a)
		return 0;
	fd = open_file(a->path);
	if (fd < 0) {
		ck_err("audit log %s: %s; the file that was opened before is used", a->path,
		       cks_audit_reason(fd));
		return fd;
	}
	close(a->fd);
	a->fd = fd;
	a->torn = false;
	return 0;
}

/* --- writing */

/* Programs and hosts may have any name, but JSON is UTF-8. */
static json_t *encode_text(const char *bytes)
{
	json_t *string = json_string(bytes);
	char plain[256];

	if (string)
		return string;
	snprintf(plain, sizeof(plain), "%s", bytes);
	cks_state_plain(plain);
	return json_string(plain);
}

/* RFC 3339, UTC. */
static json_t *time_now(void)
{
	struct timespec now;
	struct tm parts;
	char day[32], all[48];

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &parts);
	strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &parts);
	snprintf(all, sizeof(all), "%s.%03dZ", day, (int)(now.tv_nsec / 1000000));
	return json_string(all);
}

/* One line, with one write(2), so that it is whole unless the disk is full. -errno. */
static int put_line(struct cks_audit *a, const char *line, size_t size)
{
	ssize_t n;

	if (a->torn && write(a->fd, "\n", 1) != 1)
		return errno ? -errno : -EIO;
	a->torn = false;
	while ((n = write(a->fd, line, size)) < 0 && errno == EINTR)
		;
	if (n < 0)
		return -errno;
	a->torn = n > 0 && (size_t)n < size;
	return (size_t)n == size ? 0 : -ENOSPC;
}

/* Takes @fields. -errno. */
static int write_event(struct cks_audit *a, const char *event, json_t *fields)
{
	json_t *all = json_pack("{s:i, s:o, s:s}", "version", CK_AUDIT_VERSION, "time", time_now(),
				"event", event);
	char *line = NULL;
	int ret = -ENOMEM;
	size_t size;

	if (all && (!fields || json_object_update(all, fields) == 0))
		line = json_dumps(all, JSON_COMPACT | JSON_ENSURE_ASCII);
	json_decref(all);
	json_decref(fields);
	if (!line)
		return ret;
	size = strlen(line);
	line[size++] = '\n'; /* in the place of the final 0 */
	ret = put_line(a, line, size);
	free(line);
	return ret;
}

/* After a failure, the first event that can be written follows the number of those that were
 * not. */
static int put_lost(struct cks_audit *a)
{
	int ret;

	if (!a->failing)
		return 0;
	ret = write_event(a, "lost", json_pack("{s:i}", "events", (int)a->lost));
	if (ret < 0)
		return ret;
	ck_warn("audit log %s: it can be written again; %u events were lost", a->path, a->lost);
	a->failing = false;
	a->lost = 0;
	return 0;
}

void cks_audit_event(struct cks_audit *a, const char *event, json_t *fields)
{
	int ret;

	if (!a) {
		json_decref(fields);
		return;
	}
	ret = put_lost(a);
	if (ret == 0)
		ret = write_event(a, event, json_incref(fields));
	json_decref(fields);
	if (ret == 0)
		return;
	if (!a->failing)
		ck_err("audit log %s: %s; %s", a->path, strerror(-ret),
		       a->required
			       ? "sessions are refused until it can be written (--audit-required)"
			       : "events are lost until it can be written");
	a->failing = true;
	a->lost++;
}

/* --- events */

static void set_field(json_t *fields, const char *key, json_t *value)
{
	if (value)
		json_object_set_new(fields, key, value);
}

static json_t *describe_client(const struct cks_owner *owner, const struct cks_audit_client *client)
{
	const char *identity = owner->identity.name;
	char address[CK_PEER_NAME];
	json_t *fields = json_pack("{s:o, s:s, s:o, s:o, s:I}", "identity",
				   identity[0] ? encode_text(identity) : json_null(), "address",
				   cks_peer_source(&owner->peer, address), "program",
				   encode_text(client->program), "host", encode_text(client->host),
				   "client_pid", (json_int_t)client->pid);

	if (client->prefix && client->prefix[0])
		set_field(fields, "worker_prefix", encode_text(client->prefix));
	return fields;
}

void cks_audit_refused(struct cks_audit *a, const struct cks_owner *owner,
		       const struct cks_audit_client *client, enum cks_refusal kind,
		       const char *why)
{
	json_t *fields;

	if (!a)
		return;
	fields = describe_client(owner, client);
	set_field(fields, "reason", json_string(cks_refusal_name(kind)));
	set_field(fields, "why", encode_text(why));
	cks_audit_event(a, "refused", fields);
}

void cks_audit_waits(struct cks_audit *a, const struct cks_owner *owner,
		     const struct cks_audit_client *client, const char *why)
{
	json_t *fields;

	if (!a)
		return;
	fields = describe_client(owner, client);
	set_field(fields, "why", encode_text(why));
	cks_audit_event(a, "session-wait", fields);
}

static void name_session(json_t *fields, unsigned int number)
{
	set_field(fields, "session", json_sprintf("s%u", number)); /* as cks_session_name() */
}

bool cks_audit_begin(struct cks_audit *a, unsigned int number, const struct cks_owner *owner,
		     const struct cks_audit_client *client)
{
	json_t *fields;

	if (!a)
		return true;
	fields = describe_client(owner, client);
	name_session(fields, number);
	cks_audit_event(a, "session-begin", fields);
	return !(a->required && a->failing);
}

static json_t *describe_session(const struct cks_session_info *s)
{
	const struct cks_audit_client client = {s->program, s->use.host, s->client_pid, NULL};
	json_t *fields = describe_client(&s->owner, &client);

	name_session(fields, s->number);
	set_field(fields, "worker_pid", json_integer(s->pid));
	return fields;
}

void cks_audit_return(struct cks_audit *a, const struct cks_session_info *s, const char *from)
{
	json_t *fields;

	if (!a)
		return;
	fields = describe_session(s);
	set_field(fields, "from", json_string(from));
	cks_audit_event(a, "session-return", fields);
}

void cks_audit_end(struct cks_audit *a, const struct cks_session_info *s, const char *cause)
{
	json_t *fields;

	if (!a)
		return;
	fields = describe_session(s);
	if (s->use.begun)
		set_field(fields, "seconds", json_real((double)(ck_now_ms() - s->use.begun) / 1e3));
	set_field(fields, "calls", json_integer((json_int_t)s->use.calls));
	set_field(fields, "commands", json_integer((json_int_t)s->use.commands));
	set_field(fields, "received", json_integer((json_int_t)s->use.received));
	set_field(fields, "sent", json_integer((json_int_t)s->use.sent));
	set_field(fields, "peak_memory", json_integer((json_int_t)s->peak));
	if (s->use.gpu_us)
		set_field(fields, "gpu_seconds", json_real((double)s->use.gpu_us / 1e6));
	set_field(fields, "cause", encode_text(cause));
	cks_audit_event(a, "session-end", fields);
}

void cks_audit_command(struct cks_audit *a, uid_t user, const char *command, const char *session,
		       const json_t *reply)
{
	const char *error = json_string_value(json_object_get(reply, "error"));
	json_t *fields = json_pack("{s:I, s:o, s:s}", "user", (json_int_t)user, "command",
				   encode_text(command), "result",
				   !reply  ? "started"
				   : error ? "refused"
					   : "done");

	if (session)
		set_field(fields, "session", encode_text(session));
	if (error)
		set_field(fields, "why", encode_text(error));
	cks_audit_event(a, "command", fields);
}
