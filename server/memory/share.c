/*
 * server/memory/share.c - CUDA's own sharing between sessions of one server: exported memory and
 * pools, and cuIpc handles.
 *
 * The driver's descriptor or handle is deposited with the broker. The client gets a ticket, a
 * number and an unguessable key, and passes it on. A session with the ticket claims the deposit and
 * passes it to its own driver.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/handlers.h"
#include "server/memory/memory.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "server/memory/share.h"
#include "util/util.h"

/* A deposit of this session. Repeated requests return the same one, as programs expect of
 * handles. */
struct left {
	struct left *next;
	CUmemGenericAllocationHandle physical; /* 0: the deposit is bytes */
	uint64_t owner;			       /* the memory or pool it is a handle of; 0: none */
	unsigned char bytes[CK_M3_BLOB_MAX];
	size_t size;
	struct cks_ticket ticket;
};

struct restricted {
	struct restricted *next;
	CUmemGenericAllocationHandle physical;
	unsigned int arriving; /* lanes that have it from the driver and no id yet */
};

static struct ck_mutex shares_lock = CK_MUTEX(CK_RANK_SHARES);
static struct left *lefts;
static struct restricted *restricted;

/* --- the broker */

static CUresult deposit_data(int fd, const void *bytes, size_t size, struct cks_ticket *ticket)
{
	struct ck_m3_request request;
	size_t got = 0;
	int none, status;

	if (size > CK_M3_BLOB_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	ck_m3_request_init(&request, CK_M3_DEPOSIT);
	request.data_size = (uint32_t)size;
	status = cks_broker_ask(&request, bytes, fd, ticket->key, sizeof(ticket->key), &got, &none,
				&ticket->number);
	if (status == M3_OK && got != sizeof(ticket->key))
		status = M3_EPROTO;
	return cks_broker_error(status);
}

CUresult cks_share_claim(const void *bytes, size_t bytes_size, void *back, size_t room,
			 size_t *size, int *fd)
{
	struct ck_m3_request request;
	struct cks_ticket ticket;
	uint64_t number;

	if (bytes_size != sizeof(ticket))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&ticket, bytes, sizeof(ticket));
	if (!ticket.number)
		return CUDA_ERROR_INVALID_VALUE;
	ck_m3_request_init(&request, CK_M3_CLAIM);
	request.region = ticket.number;
	request.data_size = sizeof(ticket.key);
	return cks_broker_error(
		cks_broker_ask(&request, ticket.key, -1, back, room, size, fd, &number));
}

CUresult cks_ticket_answer(const struct cks_ticket *ticket, char **bytes, unsigned int *size)
{
	*bytes = malloc(sizeof(*ticket));
	if (!*bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(*bytes, ticket, sizeof(*ticket));
	*size = sizeof(*ticket);
	return CUDA_SUCCESS;
}

/* --- deposits */

/* Call with the lock held. */
static struct left *left_find(CUmemGenericAllocationHandle physical, uint64_t owner,
			      const void *bytes, size_t size)
{
	struct left *l = lefts;

	while (l && (l->physical != physical || l->owner != owner || l->size != size ||
		     memcmp(l->bytes, bytes, size) != 0))
		l = l->next;
	return l;
}

/* Make the deposit, unless it exists already. */
static CUresult leave_once(CUmemGenericAllocationHandle physical, int fd, uint64_t owner,
			   const void *bytes, size_t size, struct cks_ticket *ticket)
{
	CUresult err = CUDA_SUCCESS;
	struct left *l;

	ck_lock(&shares_lock);
	l = left_find(physical, owner, bytes, size);
	if (!l) {
		l = calloc(1, sizeof(*l));
		err = l ? deposit_data(fd, bytes, size, &l->ticket) : CUDA_ERROR_OUT_OF_MEMORY;
		if (err) {
			free(l);
			goto unlock;
		}
		l->physical = physical;
		l->owner = owner;
		memcpy(l->bytes, bytes, size);
		l->size = size;
		l->next = lefts;
		lefts = l;
	}
	*ticket = l->ticket;
unlock:
	ck_unlock(&shares_lock);
	return err;
}

static void withdraw_deposit(const struct left *l)
{
	struct ck_m3_request request;
	uint64_t number;
	size_t none;
	int fd;

	ck_m3_request_init(&request, CK_M3_WITHDRAW);
	request.region = l->ticket.number;
	cks_broker_ask(&request, NULL, -1, NULL, 0, &none, &fd, &number);
}

/* Does the session still have the memory, by a handle or a mapping? */
static bool in_use(struct cks_request *q, CUmemGenericAllocationHandle physical)
{
	struct cks_object object;
	uint64_t id = 0;

	while (cks_handles_next(q->session->handles, &id, CK_KIND_PHYSICAL, &object)) {
		if ((CUmemGenericAllocationHandle)(uintptr_t)object.handle == physical)
			return true;
	}
	return cks_memory_mappings(q->session->memory, physical) > 0;
}

void cks_share_check(struct cks_request *q)
{
	struct left **at, *l;
	struct restricted **ra, *r;

	ck_lock(&shares_lock);
	for (at = &lefts; (l = *at) != NULL;) {
		if (!l->physical || in_use(q, l->physical)) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		withdraw_deposit(l);
		free(l);
	}
	for (ra = &restricted; (r = *ra) != NULL;) {
		if (r->arriving || in_use(q, r->physical)) {
			ra = &r->next;
			continue;
		}
		*ra = r->next;
		free(r);
	}
	ck_unlock(&shares_lock);
}

bool cks_share_is_own(const struct cks_ticket *ticket)
{
	const struct left *l;

	ck_lock(&shares_lock);
	for (l = lefts; l && memcmp(&l->ticket, ticket, sizeof(*ticket)) != 0;)
		l = l->next;
	ck_unlock(&shares_lock);
	return l != NULL;
}

void cks_share_freed(uint64_t owner)
{
	struct left **at, *l;

	ck_lock(&shares_lock);
	for (at = &lefts; owner && (l = *at) != NULL;) {
		if (l->owner != owner) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		withdraw_deposit(l);
		free(l);
	}
	ck_unlock(&shares_lock);
}

/* --- read-only memory */

/* Call with the lock held. */
static struct restricted **restricted_at(CUmemGenericAllocationHandle physical)
{
	struct restricted **at = &restricted;

	while (*at && (*at)->physical != physical)
		at = &(*at)->next;
	return at;
}

/* Note whether the memory is read-only. cks_share_check keeps the entry until end_arrival() is
 * called. */
static CUresult begin_arrival(CUmemGenericAllocationHandle physical, bool read_only)
{
	struct restricted **at, *r;

	ck_lock(&shares_lock);
	at = restricted_at(physical);
	r = *at;
	if (r && !read_only) {
		*at = r->next;
		free(r);
	} else if (!r && read_only) {
		r = calloc(1, sizeof(*r));
		if (r) {
			r->physical = physical;
			r->next = restricted;
			restricted = r;
		}
	}
	if (r && read_only)
		r->arriving++;
	ck_unlock(&shares_lock);
	return r || !read_only ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void end_arrival(CUmemGenericAllocationHandle physical)
{
	struct restricted *r;

	ck_lock(&shares_lock);
	r = *restricted_at(physical);
	if (r && r->arriving > 0)
		r->arriving--;
	ck_unlock(&shares_lock);
}

bool cks_share_is_read_only(CUmemGenericAllocationHandle physical)
{
	bool found;

	ck_lock(&shares_lock);
	found = physical && *restricted_at(physical) != NULL;
	ck_unlock(&shares_lock);
	return found;
}

CUresult cks_share_adopt(struct cks_request *q, uint64_t id, CUmemGenericAllocationHandle handle,
			 bool read_only, char *prop)
{
	CUresult err = begin_arrival(handle, read_only);

	if (err) {
		ck_driver.cuMemRelease(handle);
		return err;
	}
	err = cks_physical_adopt(q, id, handle, prop);
	if (read_only)
		end_arrival(handle);
	return err;
}

/* --- exported memory and pools; virtual.c has the driver's side */

CUresult cks_share_physical(CUmemGenericAllocationHandle physical, int fd,
			    struct cks_ticket *ticket)
{
	if (cks_share_is_read_only(physical))
		return CUDA_ERROR_NOT_PERMITTED;
	return leave_once(physical, fd, 0, "", 0, ticket);
}

CUresult cks_share_pool(CUmemoryPool pool, int fd, struct cks_ticket *ticket)
{
	return leave_once(0, fd, (uintptr_t)pool, "", 0, ticket);
}

CUresult cks_share_handle(CUdeviceptr address, const void *bytes, size_t size,
			  struct cks_ticket *ticket)
{
	return cks_share_list(address, -1, bytes, size, ticket);
}

CUresult cks_share_list(CUdeviceptr address, int fd, const void *bytes, size_t size,
			struct cks_ticket *ticket)
{
	return size <= CK_M3_BLOB_MAX ? leave_once(0, fd, address, bytes, size, ticket)
				      : CUDA_ERROR_INVALID_VALUE;
}
