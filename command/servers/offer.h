/*
 * command/servers/offer.h - the offers of servers: their sessions, and the memory of their GPUs
 * (CK_OFFER).
 */
#ifndef CK_COMMAND_SERVERS_OFFER_H
#define CK_COMMAND_SERVERS_OFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "command/config/server.h"

#define CKX_OFFER_GPUS 64
#define CKX_OFFER_WHY 320

/* Whether the server would give this client a session. */
enum ckx_admission {
	CKX_ADMISSION_UNKNOWN, /* it does not answer; why says why */
	CKX_ADMISSION_OLD,     /* it is too old for the question */
	CKX_ADMISSION_DENIED,  /* no: why is its own reason */
	CKX_ADMISSION_GRANTED,
};

/* Without pointers: it passes a pipe. */
struct ckx_offer {
	enum ckx_admission admission;
	int error;    /* -errno of connecting to it */
	bool answers; /* with its GPUs */
	/* why it does not answer; or why it has no session now, if it is not ready */
	char why[CKX_OFFER_WHY];
	char release[64];
	bool ready; /* a session would begin at once */
	unsigned int sessions, most, waiting;
	unsigned int count; /* of its GPUs */
	struct ckx_offer_gpu {
		char name[96];
		uint64_t memory, free; /* bytes */
		unsigned int programs; /* that use it */
		int utilization;       /* percent; -1: unknown */
	} gpus[CKX_OFFER_GPUS];
};

/* Ask one server. */
void ckx_offer_ask(const struct ckx_server *server, struct ckx_offer *offer);

/* Read the reply in @body: the server's values are within their limits afterwards, and have no
 * commands for terminals. 0 or -errno. */
int ckx_offer_decode(const unsigned char *body, size_t size, struct ckx_offer *offer);

/* Ask @count servers at the same time, and wait some seconds at most: offers[i] is of
 * servers[i]. */
void ckx_offers_ask(const struct ckx_server *const *servers, struct ckx_offer *offers,
		    size_t count);

#endif
