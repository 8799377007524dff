/*
 * server/processes/turn_pieces.h - how a turn is divided while sessions of higher priority may want
 * the GPU (server/rules/fair_share.h).
 *
 * The session submits a piece, which is a number of messages; its worker waits until the GPU has
 * done that, and begins the next piece by itself. So a session of higher priority waits for one
 * piece at most, and the GPU is idle only for as long as the worker takes between two. The number
 * of messages follows the time that pieces have taken. No kernel is divided.
 */
#ifndef CK_SERVER_WORKER_TURN_PIECES_H
#define CK_SERVER_WORKER_TURN_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#define CK_PIECE_US 2000      /* GPU time of a piece, about; */
#define CK_PIECE_SHORT_US 500 /* and where the other session will want the GPU meanwhile */
#define CK_PIECE_MESSAGES_MOST 4096

struct cks_turn_pieces {
	uint32_t messages;  /* of a piece of CK_PIECE_US */
	int64_t short_from; /* pieces that begin then or later are short; in us of ck_now_us */
	uint32_t us;	    /* length of the present piece */
};

/* A turn begins: it may be the first one, whose first piece has @messages. @soon_us as in struct
 * cks_control_turn. */
void cks_turn_pieces_begin(struct cks_turn_pieces *pieces, uint32_t messages, uint32_t soon_us,
			   int64_t now);

/* A piece begins: how many messages it has. */
uint32_t cks_turn_pieces_next(struct cks_turn_pieces *pieces, int64_t now);

/* It is over after @used_us. @full: the session had more to do. */
void cks_turn_pieces_fit(struct cks_turn_pieces *pieces, int64_t used_us, bool full);

#endif
