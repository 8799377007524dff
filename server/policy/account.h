/*
 * server/policy/account.h - the GPU memory, and the contexts, that the sessions of one identity
 * have taken together.
 *
 * A file in memory that the supervisor makes and that the workers of the identity map. Each worker
 * has a slot, with the bytes that it has taken of each device; the totals are the sums of the
 * slots. A worker that is killed, even while it holds the lock, leaves its slot as it is. The
 * supervisor marks the slot, and the next who needs memory clears it. The supervisor, and processes
 * of the server that only look, never take the lock, and use nothing in the file as a size or an
 * index: a client may have taken over a worker.
 */
#ifndef CK_SERVER_POLICY_ACCOUNT_H
#define CK_SERVER_POLICY_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "server/policy/terms.h"

struct cks_account;

#define CK_ACCOUNT_UNLIMITED UINT64_MAX
#define CK_ACCOUNT_DEVICES 64
#define CK_ACCOUNT_CONTEXTS CK_ACCOUNT_DEVICES /* counts contexts, as if it were a device */

/* --- for the supervisor */

/* Make an account with room for @seats sessions. The descriptor of its file, or -errno. */
int cks_account_create(const struct cks_terms *terms, uint32_t seats, struct cks_account **out);
/* The terms are others now. Sessions that have more than these allow keep it. */
void cks_account_change(struct cks_account *account, const struct cks_terms *terms);
/* A slot for one more session; -EUSERS: there is none. */
int cks_account_take_seat(struct cks_account *account);
/* The session of @seat has ended. */
void cks_account_leave_seat(struct cks_account *account, uint32_t seat);

/* --- for a worker */

/* Map the file @fd, which stays open. -EPROTO: it is no account, or has no such @seat. */
int cks_account_map(int fd, uint32_t seat, struct cks_account **out);

/* The same for another process, which only looks. */
int cks_account_view(int fd, uint32_t seat, struct cks_account **out);
/* The bytes that the session of @seat, and the others, have of the device with this UUID. They may
 * change meanwhile. */
void cks_account_look(const struct cks_account *account, uint32_t seat,
		      const unsigned char uuid[16], uint64_t *own, uint64_t *others);

/* The terms as they are now. */
void cks_account_terms(const struct cks_account *account, struct cks_terms *out);
/* Of a device with @total bytes: how many the identity may have. */
uint64_t cks_account_limit(const struct cks_account *account, uint64_t total);

/* How many contexts the identity may have. */
uint64_t cks_account_context_limit(const struct cks_account *account);

/* The bytes that all devices together may still give; CK_ACCOUNT_UNLIMITED: no such limit. @most:
 * that limit. */
uint64_t cks_account_left(struct cks_account *account, uint64_t *most);

/* Is @pid the process of a session of the identity? */
bool cks_account_has(const struct cks_account *account, unsigned int pid);

/* The number of the device with this UUID in the account; -1: there are too many. */
int cks_account_device(struct cks_account *account, const unsigned char uuid[16]);
/* Take @bytes of @device for @seat. False: the identity would have more than @most there, or more
 * than the terms allow on all devices. */
bool cks_account_charge(struct cks_account *account, uint32_t seat, int device, uint64_t bytes,
			uint64_t most);
/* The same for memory that the session has already. */
void cks_account_move(struct cks_account *account, uint32_t seat, int device, uint64_t bytes);
void cks_account_refund(struct cks_account *account, uint32_t seat, int device, uint64_t bytes);
/* The bytes that all sessions of the identity have of @device. */
uint64_t cks_account_used(struct cks_account *account, int device);

/* --- for both */

void cks_account_unmap(struct cks_account *account); /* accepts NULL */

#endif
