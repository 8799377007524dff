/*
 * client/link/lane_part.h - a lane, for lane.c and lane_exchange.c alone.
 */
#ifndef CK_CLIENT_LINK_LANE_PART_H
#define CK_CLIENT_LINK_LANE_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ck_chan;
struct ck_reader;
struct ckc_client;

struct ckc_lane {
	struct ckc_client *client;
	struct ck_chan *chan;
	struct ck_reader *reader;
	uint32_t sent, answered; /* xids of the last call and of the last reply */
	uint32_t first_xid;	 /* after the join's */
	bool busy;		 /* a call is in progress */
	bool idle;		 /* see struct ckc_exchange */
	bool joining;		 /* the server has not accepted it: no reply has been read */
	bool linked;	       /* its channel is a lasting one, which reads the reply to the link */
	size_t received;       /* bytes of the last reply */
	struct ckc_lane *next; /* in the pool */
	struct ckc_lane *older; /* in the list of all */
	size_t size;
	unsigned char *buf;
};

#endif
