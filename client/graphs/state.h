/*
 * client/graphs/state.h - the session state of client/graphs.
 */
#ifndef CK_CLIENT_GRAPHS_STATE_H
#define CK_CLIENT_GRAPHS_STATE_H

#include "client/link/client.h"

struct ckc_graphs {
	struct ck_mutex lists_lock; /* graph.c: the nodes of all graphs, the graphs in nodes */
	struct ck_mutex notifications_lock;
	struct ck_notification *notifications; /* host_function.c */
};

#endif
