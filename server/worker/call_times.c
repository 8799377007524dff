/*
 * server/worker/call_times.c - see dispatch.h.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "rpc/chan.h"
#include "server/worker/dispatch.h"
#include "server/worker/lane.h"
#include "util/until.h"

#define CK_SAMPLE_US 1000000 /* between two samples of a connection's round trip */

/* The kernel measures the round trips of a connection over TCP; now and then they are noted. */
static void sample_round_trip(struct cks_lane *l, int64_t now)
{
	struct tcp_info info = {.tcpi_rtt = 0};
	socklen_t size = sizeof(info);

	if (now - l->sampled_us < CK_SAMPLE_US)
		return;
	l->sampled_us = now;
	if (getsockopt(ck_chan_fd(l->chan), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
	    info.tcpi_rtt > 0)
		cks_histogram_add_shared(&l->session->round_trips, info.tcpi_rtt);
}

void cks_call_times_note(struct cks_lane *l, int64_t began)
{
	int64_t now = ck_now_us();

	cks_histogram_add_shared(&l->session->call_times, (uint64_t)(now - began));
	sample_round_trip(l, now);
}
