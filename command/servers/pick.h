/*
 * command/servers/pick.h - which servers and GPUs of a fleet a program gets.
 *
 * The same answers of the servers give the same choice:
 *
 * - A GPU fits if it has so much memory free. Of one server's, those with most free memory are
 *   taken, then those that fewer programs use, then the lowest numbers.
 * - One server that has enough of them comes before several. Of such servers: the lowest priority
 *   (of DNS); then the one whose chosen GPUs have most free memory together; then the first of the
 *   list.
 * - Without such a server, several: the lowest priority; then those with most fitting GPUs; then
 *   most free memory; then the order of the list.
 * - Servers that have no session now are for programs that wait. Of these the one with fewest
 *   clients in line comes first, and only one that has enough GPUs.
 */
#ifndef CK_COMMAND_SERVERS_PICK_H
#define CK_COMMAND_SERVERS_PICK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "command/servers/fleet.h"

struct ckx_need {
	unsigned int gpus; /* 1 to CKX_OFFER_GPUS */
	uint64_t memory;   /* bytes that each must have free */
	bool full;	   /* choose among servers that have no session now */
};

struct ckx_pick {
	struct ckx_part {
		size_t candidate; /* of the fleet */
		unsigned int devices[CKX_OFFER_GPUS], count;
	} parts[CK_SERVERS_MAX];
	size_t count;
};

/* Choose among those of @fleet that @before (or NULL) has not chosen; with @before, among those
 * with its keys. False: none fits. */
bool ckx_pick(const struct ckx_fleet *fleet, const struct ckx_need *need,
	      const struct ckx_pick *before, struct ckx_pick *pick);

/* How many GPUs of candidate @c fit? */
unsigned int ckx_pick_fitting(const struct ckx_candidate *c, uint64_t memory);

#endif
