/*
 * tests/network/dial.c - a client whose connections behave as over a slower network.
 *
 * The linker puts these functions in the place of the client's own (--wrap in cpu/Makefile).
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "rpc/chan.h"
#include "tests/network/inject.h"
#include "util/log.h"

CK_LOG_DEFINE("network");

int __real_ck_chan_dial_many(const char *address, int timeout_ms, struct ck_chan **chans,
			     unsigned int count);
uint32_t __real_ck_chan_round_trip_us(struct ck_chan *chan);
int __wrap_ck_chan_dial_many(const char *address, int timeout_ms, struct ck_chan **chans,
			     unsigned int count);
uint32_t __wrap_ck_chan_round_trip_us(struct ck_chan *chan);

static enum { NONE, SLOWER, WRONG } state;
static struct ck_inject network;

static void read_network(void)
{
	const char *text = getenv("CRICKET_TEST_NETWORK");

	if (!text || !*text)
		return;
	state = ck_inject_parse(text, &network) < 0 ? WRONG : SLOWER;
	if (state == WRONG)
		ck_err("CRICKET_TEST_NETWORK=%s is not like rtt=500us,bw=10G", text);
}

static void find_network(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_network);
}

/* Let channels just dialed behave as over the network. On error, closes all of them. */
static int slow_down(struct ck_chan **chans, unsigned int count)
{
	unsigned int done = 0;
	int ret = 0;

	ck_inject_connect(&network);
	while (ret == 0 && done < count) {
		ret = ck_inject_wrap(&network, chans[done], &chans[done]);
		if (ret == 0)
			done++;
	}
	for (unsigned int i = 0; ret < 0 && i < count; i++) {
		if (i != done) /* the failed one is closed already */
			ck_chan_close(chans[i]);
	}
	return ret;
}

int __wrap_ck_chan_dial_many(const char *address, int timeout_ms, struct ck_chan **chans,
			     unsigned int count)
{
	int ret;

	find_network();
	if (state == WRONG)
		return -EINVAL;
	ret = __real_ck_chan_dial_many(address, timeout_ms, chans, count);
	return ret == 0 && state == SLOWER ? slow_down(chans, count) : ret;
}

/* The kernel knows the real network only. */
uint32_t __wrap_ck_chan_round_trip_us(struct ck_chan *chan)
{
	find_network();
	return state == SLOWER ? 0 : __real_ck_chan_round_trip_us(chan);
}
