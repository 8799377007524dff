/*
 * client/link/queue.h - waiting for a session of a server that is full (CRICKET_WAIT).
 */
#ifndef CK_CLIENT_LINK_QUEUE_H
#define CK_CLIENT_LINK_QUEUE_H

#include <stdbool.h>

#include "cricket.h"

struct ckc_client;

/* Before the first hello: how long the user wishes to wait. */
void ckc_queue_begin(struct ckc_client *c);

/* Does the user wish to wait, is there time left, and no other choice? */
bool ckc_queue_waits(const struct ckc_client *c);

/* The queue field of a hello; empty while other servers remain to try. */
void ckc_queue_request(const struct ckc_client *c, ck_hello_queue *wish);

/* The server has answered that it is full, with @message. True: ask again. Else the time is over,
 * or the user has interrupted the program, which is logged. */
bool ckc_queue_go_on(struct ckc_client *c, const char *message);

/* The waiting is over. */
void ckc_queue_end(struct ckc_client *c);

#endif
