/*
 * m3/deposit.c - descriptors and handles that one worker leaves for another: CUDA's own ways of
 * sharing, between sessions. A client with the number and the key of a deposit gets it. It ends
 * with the worker that left it.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "m3/broker.h"

#define DEPOSITS_MAX 65536 /* of one connection */
/*
 * Of one principal. A process has often not more than 20000 descriptors, of which the connections
 * may need 8192.
 */
#define DESCRIPTORS_MAX 8192

static void deposit_free(struct ck_m3_conn *conn, struct ck_m3_deposit *d)
{
	if (d->fd >= 0) {
		close(d->fd);
		conn->principal->descriptors--;
	}
	free(d);
}

void ck_m3_deposits_end(struct ck_m3_conn *conn)
{
	struct ck_m3_deposit *next;

	for (struct ck_m3_deposit *d = conn->deposits; d; d = next) {
		next = d->next;
		deposit_free(conn, d);
	}
	conn->deposits = NULL;
}

static int add_deposit(struct ck_m3_ask *ask)
{
	struct ck_m3_conn *conn = ask->conn;
	struct ck_m3_deposit *d;

	if (ask->q->data_size > CK_M3_BLOB_MAX || (!ask->q->data_size && ask->fd < 0))
		return M3_EINVAL;
	if (conn->deposit_count >= DEPOSITS_MAX ||
	    (ask->fd >= 0 && conn->principal->descriptors >= DESCRIPTORS_MAX))
		return M3_EQUOTA;
	d = calloc(1, sizeof(*d));
	if (!d)
		return M3_ENOMEM;
	if (getrandom(d->key, sizeof(d->key), 0) != (ssize_t)sizeof(d->key)) {
		free(d);
		return M3_EIO;
	}
	d->id = ck_m3_number(ask->b);
	d->size = ask->q->data_size;
	memcpy(d->bytes, ask->data, d->size);
	d->fd = ask->fd;
	conn->principal->descriptors += d->fd >= 0;
	ask->fd = -1;
	d->next = conn->deposits;
	conn->deposits = d;
	conn->deposit_count++;
	ask->reply.region = d->id;
	ask->back = d->key;
	ask->back_size = sizeof(d->key);
	return M3_OK;
}

/* All bytes are looked at, so that time does not tell how many were right. */
static bool same_key(const unsigned char *a, const unsigned char *b)
{
	unsigned int differ = 0;

	for (size_t i = 0; i < CK_M3_KEY; i++)
		differ |= a[i] ^ b[i];
	return differ == 0;
}

static int claim_deposit(struct ck_m3_ask *ask)
{
	if (ask->q->data_size != CK_M3_KEY)
		return M3_EINVAL;
	for (struct ck_m3_conn *c = ask->b->conns; c; c = c->next) {
		for (struct ck_m3_deposit *d = c->deposits; d; d = d->next) {
			if (d->id != ask->q->region)
				continue;
			if (!same_key(d->key, ask->data))
				return M3_EPERM;
			ask->back = d->bytes;
			ask->back_size = d->size;
			ask->back_fd = d->fd;
			return M3_OK;
		}
	}
	return ask->q->region >> 48 == ask->b->epoch ? M3_ENOENT : M3_ESTALE;
}

static int withdraw_deposit(struct ck_m3_ask *ask)
{
	struct ck_m3_deposit **at = &ask->conn->deposits, *d;

	while (*at && (*at)->id != ask->q->region)
		at = &(*at)->next;
	d = *at;
	if (!d)
		return M3_ENOENT;
	*at = d->next;
	ask->conn->deposit_count--;
	deposit_free(ask->conn, d);
	return M3_OK;
}

int ck_m3_serve_deposit(struct ck_m3_ask *ask)
{
	if (!ask->conn->trusted)
		return M3_EPERM;
	switch (ask->q->op) {
	case CK_M3_DEPOSIT:
		return add_deposit(ask);
	case CK_M3_CLAIM:
		return claim_deposit(ask);
	default:
		return withdraw_deposit(ask);
	}
}
