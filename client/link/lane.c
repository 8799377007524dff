/*
 * client/link/lane.c - lanes: connections with a reader and a buffer. A thread keeps its lane;
 * free ones are in a pool.
 */
#include <errno.h>
#include <stdlib.h>

#include "client/link/client.h"
#include "client/link/hooks.h"
#include "client/link/lane.h"
#include "client/link/lane_part.h"
#include "rpc/chan.h"
#include "rpc/record.h"
#include "util/env.h"

#define LANE_BUFFER 4096
/* The second message's is a multiple: rarely do those of two lanes meet. */
#define LANE_XIDS (1u << 22)
#define LANES_APART 511
/* A round trip takes a few microseconds, a step of a model some milliseconds. Waking a sleeper
 * costs up to 50 us on a virtual machine. The driver itself spins without limit while it waits for
 * the GPU. */
#define LANE_SPIN_US 10000

static void handle_quiet(void *closure)
{
	const struct ckc_lane *lane = closure;

	if (!lane->idle)
		ckc_quiet(lane->client);
}

int ckc_lane_create(struct ckc_client *c, struct ck_chan *chan, struct ckc_lane **out)
{
	struct ckc_lane *lane = calloc(1, sizeof(*lane));
	int ret = -ENOMEM;

	if (!lane)
		goto close_chan;
	lane->size = LANE_BUFFER;
	lane->buf = malloc(lane->size);
	if (!lane->buf)
		goto free_lane;
	ret = ck_reader_create(chan, &lane->reader);
	if (ret < 0)
		goto free_buf;
	ck_chan_spin(chan, LANE_SPIN_US);
	if (ck_env_word_number("CRICKET_DEBUG", "splice"))
		ck_chan_lend_pages(chan); /* a call returns after its reply */
	ck_chan_on_quiet(chan, handle_quiet, lane);
	lane->client = c;
	lane->chan = chan;
	ck_lock(&c->lanes.lock);
	lane->first_xid = (c->lanes.made++ % LANES_APART + 1) * LANE_XIDS;
	lane->older = c->lanes.newest;
	c->lanes.newest = lane;
	/* a loss that came before this has not shut it down */
	if (c->state == CK_STATE_LOST)
		ck_chan_shutdown(chan);
	ck_unlock(&c->lanes.lock);
	*out = lane;
	return 0;
free_buf:
	free(lane->buf);
free_lane:
	free(lane);
close_chan:
	ck_chan_close(chan);
	return ret;
}

static void unlist_lane(struct ckc_lane *lane)
{
	struct ckc_lanes *lanes = &lane->client->lanes;
	struct ckc_lane **at = &lanes->newest;

	ck_lock(&lanes->lock);
	while (*at != lane)
		at = &(*at)->older;
	*at = lane->older;
	ck_unlock(&lanes->lock);
}

/* Free all but the connection. */
static struct ck_chan *detach_chan(struct ckc_lane *lane)
{
	struct ck_chan *chan = lane->chan;

	unlist_lane(lane);
	ck_reader_destroy(lane->reader);
	free(lane->buf);
	free(lane);
	return chan;
}

struct ck_chan *ckc_lane_detach(struct ckc_lane *lane)
{
	ck_chan_on_quiet(lane->chan, NULL, NULL);
	return detach_chan(lane);
}

void ckc_lane_destroy(struct ckc_lane *lane)
{
	ck_chan_close(detach_chan(lane));
}

void ckc_lane_release(struct ckc_lane *lane)
{
	struct ckc_lanes *lanes = &lane->client->lanes;

	ck_lock(&lanes->lock);
	lane->next = lanes->pool;
	lanes->pool = lane;
	ck_unlock(&lanes->lock);
}

void ckc_lane_drop_all(struct ckc_client *c)
{
	struct ckc_lane *lane, *next;

	ck_lock(&c->lanes.lock);
	lane = c->lanes.pool;
	c->lanes.pool = NULL;
	ck_unlock(&c->lanes.lock);
	for (; lane; lane = next) {
		next = lane->next;
		ckc_lane_destroy(lane);
	}
}

bool ckc_lane_is_closed(struct ckc_client *c)
{
	bool closed = false;

	ck_lock(&c->lanes.lock);
	for (struct ckc_lane *lane = c->lanes.newest; lane && !closed; lane = lane->older)
		closed = ck_chan_fd_gone(lane->chan);
	ck_unlock(&c->lanes.lock);
	return closed;
}

void ckc_lane_shut_all(struct ckc_client *c)
{
	ck_lock(&c->lanes.lock);
	for (struct ckc_lane *lane = c->lanes.newest; lane; lane = lane->older)
		ck_chan_shutdown(lane->chan);
	ck_unlock(&c->lanes.lock);
}

void ckc_lane_forked(struct ckc_client *c)
{
	for (struct ckc_lane *lane = c->lanes.newest; lane; lane = lane->older)
		ck_chan_forked(lane->chan);
}

void ckc_lane_forget(struct ckc_client *c)
{
	ck_mutex_renew(&c->lanes.lock);
	c->lanes.pool = NULL;
	while (c->lanes.newest)
		ckc_lane_destroy(c->lanes.newest);
}

bool ckc_lane_busy(const struct ckc_lane *lane)
{
	return lane->busy;
}

size_t ckc_lane_received(const struct ckc_lane *lane)
{
	return lane->received;
}

void ckc_lane_timeout(struct ckc_lane *lane, int milliseconds)
{
	ck_chan_timeout(lane->chan, milliseconds);
}

struct ckc_client *ckc_lane_client(const struct ckc_lane *lane)
{
	return lane->client;
}

bool ckc_lane_joining(const struct ckc_lane *lane)
{
	return lane->joining;
}

struct ck_chan *ckc_lane_chan(const struct ckc_lane *lane)
{
	return lane->chan;
}

struct ckc_lane *ckc_lane_pooled(struct ckc_client *c)
{
	struct ckc_lanes *lanes = &c->lanes;
	struct ckc_lane *lane;

	ck_lock(&lanes->lock);
	lane = lanes->pool;
	if (lane)
		lanes->pool = lane->next;
	ck_unlock(&lanes->lock);
	return lane;
}
