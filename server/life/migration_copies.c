/*
 * server/life/migration_copies.c - the memory of copies that are made of one checkpoint at the same
 * time; see migration_part.h.
 *
 * A process reads it once, and compares it, into a file without a name. Their workers map this file
 * until their memory is on the GPU. A checkpoint is known by the hash of its manifest, which has
 * the id of its session and the hashes of all its memory: another session never gets it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/children/helpers.h"
#include "server/helpers/helper.h"
#include "server/life/migration_part.h"
#include "util/hash.h"

struct travel_memory {
	struct travel_memory *next;
	char hash[CK_HASH_TEXT]; /* of the manifest */
	int file;
	json_t *reply;	    /* of the process that reads; NULL: it is at work */
	unsigned int users; /* travels */
};

static void note_read(struct cks_server *server, json_t *reply, void *data)
{
	struct travel_memory *m = data;

	(void)server;
	m->reply = reply;
}

static bool is_ok(const struct travel_memory *m)
{
	return !m->reply || json_is_true(json_object_get(m->reply, "ok"));
}

static void begin_reading(struct cks_server *server, struct travel_memory *m, const char *directory)
{
	struct cks_helper helper = {.argument = CK_RESTORER_ARGUMENT, .done = note_read, .data = m};
	int ret;

	m->file = memfd_create("cricket-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ret = m->file < 0 ? -errno : 0;
	if (ret == 0) {
		helper.control = m->file;
		helper.request = json_pack("{s:s, s:s}", "directory", directory, "memory", m->hash);
		ret = cks_helpers_start(server->helpers, &helper);
	}
	if (ret < 0)
		m->reply = cks_control_error("no process for its memory: %s", strerror(-ret));
}

void travel_share_memory(struct cks_server *server, struct travel *travel, const char *hash)
{
	struct travel_memory *m = server->travels->memories;

	travel->shares = true;
	while (m && (strcmp(m->hash, hash) != 0 || !is_ok(m)))
		m = m->next;
	if (!m) {
		m = calloc(1, sizeof(*m));
		if (!m)
			return;
		snprintf(m->hash, sizeof(m->hash), "%s", hash);
		m->next = server->travels->memories;
		server->travels->memories = m;
		begin_reading(server, m, travel->directory);
	}
	m->users++;
	travel->memory = m;
}

static void free_memory(struct travel_memory *m)
{
	if (m->file >= 0)
		close(m->file);
	json_decref(m->reply);
	free(m);
}

void travel_free_memories(struct cks_travels *t)
{
	struct travel_memory *next;

	for (struct travel_memory *m = t->memories; m; m = next) {
		next = m->next;
		free_memory(m);
	}
}

void travel_leave_memory(struct cks_server *server, struct travel *travel)
{
	struct travel_memory **at = &server->travels->memories, *m = travel->memory;

	travel->memory = NULL;
	if (!m || --m->users > 0)
		return;
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	cks_helpers_forget(server->helpers, m); /* it ends, if it is at work */
	free_memory(m);
}

json_t *travel_memory_error(const struct travel *travel)
{
	if (travel->shares && !travel->memory)
		return cks_control_error("%s", strerror(ENOMEM));
	return !travel->memory || is_ok(travel->memory) ? NULL : json_incref(travel->memory->reply);
}

bool travel_memory_read(const struct travel *travel, int *file)
{
	if (!travel->memory)
		return true;
	*file = travel->memory->file;
	return travel->memory->reply != NULL;
}
