/*
 * tests/unit/server_place.h - a folder for one test of checkpoints and moves.
 */
#ifndef CK_TESTS_UNIT_SERVER_PLACE_H
#define CK_TESTS_UNIT_SERVER_PLACE_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/checkpoint/store.h"

struct place {
	char path[64];
	int dir;
	struct cks_why why;
};

/* 0, or -1. */
static inline int place_open(struct place *p)
{
	strcpy(p->path, "/tmp/cricket-test-XXXXXX");
	if (!mkdtemp(p->path))
		return -1;
	p->dir = open(p->path, O_RDONLY | O_DIRECTORY);
	return p->dir < 0 ? -1 : 0;
}

static inline void place_close(const struct place *p)
{
	close(p->dir);
	cks_store_remove(p->path);
}

#endif
