/*
 * wcm/rendezvous_state.h - the state of a meeting place, for its two files. It belongs to the
 * place's thread, except for next, awaited and ended, which the lock of the process's list guards.
 */
#ifndef CK_WCM_RENDEZVOUS_STATE_H
#define CK_WCM_RENDEZVOUS_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "wcm/message.h"

#define CK_WCM_STRANGERS_MAX 32

struct ck_wcm_rendezvous_rank {
	int sock;     /* -1: not here */
	bool local;   /* of this process */
	bool waiting; /* in an exchange: */
	uint64_t serial;
	uint32_t mask;
	uint32_t size;
	int fd; /* -1: none */
	unsigned char bytes[CK_WCM_PART_MAX];
};

/* An object that some of its ranks are done with. */
struct ck_wcm_rendezvous_object {
	struct ck_wcm_rendezvous_object *next;
	uint64_t number;
	uint32_t mask, done;
};

enum ck_wcm_rendezvous_order { CK_WCM_STOP = 's', CK_WCM_LEAVE = 'l', CK_WCM_EXIT = 'x' };

struct ck_wcm_rendezvous {
	int size;
	int listener;  /* -1: all have come */
	bool rests;    /* out of descriptors for new ranks: do not poll for a moment */
	int orders[2]; /* a pipe: an enum ck_wcm_rendezvous_order a byte */
	bool left;     /* rank 0 is in the group: end when all have gone */
	unsigned int patience_ms;
	struct ck_wcm_rendezvous *next; /* of the process's */
	bool awaited, ended;		/* somebody waits for its end, and frees it; it has come */
	uint32_t came, here;
	uint64_t number;
	struct ck_wcm_rendezvous_object *objects;
	int strangers[CK_WCM_STRANGERS_MAX]; /* have not said who they are */
	int stranger_count;
	struct ck_wcm_rendezvous_rank ranks[WCM_RANKS_MAX];
	struct ck_wcm_packet packet; /* room */
};

/* All ranks of the group. */
uint32_t ck_wcm_rendezvous_all(const struct ck_wcm_rendezvous *m);

/*
 * Send to a rank, without waiting. A rank that does not take it is shut out, which the loop handles
 * later.
 */
void ck_wcm_rendezvous_notify(struct ck_wcm_rendezvous *m, int rank,
			      const struct ck_wcm_message *head, const void *bytes, size_t size,
			      const int *fds, unsigned int count);

/* A rank waits for the others of an exchange; it does no longer. */
void ck_wcm_rendezvous_exchange(struct ck_wcm_rendezvous *m, int rank,
				const struct ck_wcm_packet *p, int fd);
void ck_wcm_rendezvous_cancel(struct ck_wcm_rendezvous *m, int rank, uint64_t serial);

/* A rank is done with an object. */
void ck_wcm_rendezvous_done(struct ck_wcm_rendezvous *m, int rank, uint64_t number, uint32_t mask);

/* A rank has gone: end the exchanges that wait for it. */
void ck_wcm_rendezvous_without(struct ck_wcm_rendezvous *m, int rank);

/* Free the records of exchanges and objects. */
void ck_wcm_rendezvous_forget(struct ck_wcm_rendezvous *m);

#endif
