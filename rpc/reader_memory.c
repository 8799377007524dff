/*
 * rpc/reader_memory.c - see rpc/reader_memory.h.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "rpc/reader_memory.h"
#include "util/until.h"
#include "util/wait.h"

#define CK_ROOM_WAIT_S 10 /* for shares held by other readers */

struct ck_reader_memory {
	pthread_mutex_t lock;
	struct ck_cond freed;
	unsigned int left;
	bool stalled; /* a wait has timed out since a share was returned */
};

int ck_reader_memory_create(unsigned int shares, struct ck_reader_memory **out)
{
	struct ck_reader_memory *room = calloc(1, sizeof(*room));

	if (!room)
		return -ENOMEM;
	pthread_mutex_init(&room->lock, NULL);
	room->left = shares;
	*out = room;
	return 0;
}

int ck_reader_memory_take(struct ck_reader_memory *room)
{
	const struct timespec until = ck_until(CK_ROOM_WAIT_S * 1000 * CK_NS_PER_MS);
	bool taken;
	int ret = 0;

	pthread_mutex_lock(&room->lock);
	while (room->left == 0 && !room->stalled && ret == 0)
		ret = ck_cond_timedwait_with(&room->freed, &room->lock, &until);
	taken = room->left > 0;
	if (taken)
		room->left--;
	else
		room->stalled = true;
	pthread_mutex_unlock(&room->lock);
	return taken ? 0 : -ENOBUFS;
}

void ck_reader_memory_give(struct ck_reader_memory *room)
{
	pthread_mutex_lock(&room->lock);
	room->left++;
	room->stalled = false;
	ck_cond_signal(&room->freed);
	pthread_mutex_unlock(&room->lock);
}
