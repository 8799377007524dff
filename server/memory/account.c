/*
 * server/memory/account.c - see account.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/memory/account.h"
#include "util/util.h"

#define CK_ACCOUNT_MAGIC 0x43414355u
#define CK_ACCOUNT_KINDS (CK_ACCOUNT_DEVICES + 1) /* memory of devices, and contexts */
#define CK_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)

enum { FREE, TAKEN, LEFT };

struct slot {
	_Atomic uint32_t state;
	_Atomic uint32_t pid; /* of the worker, as it says */
	uint64_t used[CK_ACCOUNT_KINDS];
};

struct cks_account {
	uint32_t magic, seats;
	struct cks_terms terms; /* the limits change: atomically, each alone */
	pthread_mutex_t lock;	/* between processes, robust: for the rest, except for states */
	_Atomic bool left;	/* a slot waits to be cleared */
	uint32_t device_count;
	unsigned char uuid[CK_ACCOUNT_DEVICES][16];
	uint64_t total[CK_ACCOUNT_KINDS];
	struct slot slots[];
};

static size_t size_of(uint32_t seats)
{
	return sizeof(struct cks_account) + seats * sizeof(struct slot);
}

/* --- the lock: its owner may have been killed in the middle of a change */

static void sum_up(struct cks_account *a)
{
	memset(a->total, 0, sizeof(a->total));
	for (uint32_t i = 0; i < a->seats; i++) {
		if (a->slots[i].state == FREE)
			continue;
		for (uint32_t d = 0; d < CK_ACCOUNT_KINDS; d++)
			a->total[d] += a->slots[i].used[d];
	}
}

static void take_over(struct cks_account *a, int ret)
{
	if (ret != EOWNERDEAD)
		return;
	a->device_count = ck_min(a->device_count, (uint32_t)CK_ACCOUNT_DEVICES);
	sum_up(a);
	pthread_mutex_consistent(&a->lock);
}

static void lock(struct cks_account *a)
{
	take_over(a, pthread_mutex_lock(&a->lock));
}

/* Clear the slots of sessions that have ended. Call with the lock held. */
static void clear_left(struct cks_account *a)
{
	if (!atomic_exchange(&a->left, false))
		return;
	for (uint32_t i = 0; i < a->seats; i++) {
		struct slot *s = &a->slots[i];

		if (s->state != LEFT)
			continue;
		memset(s->used, 0, sizeof(s->used));
		s->state = FREE;
	}
	sum_up(a);
}

/* --- for the supervisor */

static int init_lock(struct cks_account *a)
{
	pthread_mutexattr_t attributes;
	int ret;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	ret = -pthread_mutex_init(&a->lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
	return ret;
}

static int map(int fd, size_t size, struct cks_account **out)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	*out = at;
	return 0;
}

int cks_account_create(const struct cks_terms *terms, uint32_t seats, struct cks_account **out)
{
	int fd = memfd_create("cricket-account", MFD_CLOEXEC | MFD_ALLOW_SEALING), ret;
	struct cks_account *a = NULL;

	if (fd < 0)
		return -errno;
	ret = ftruncate(fd, (off_t)size_of(seats)) < 0 ? -errno : 0;
	if (ret == 0 && fcntl(fd, F_ADD_SEALS, CK_SEALS) < 0)
		ret = -errno;
	if (ret == 0)
		ret = map(fd, size_of(seats), &a);
	if (ret == 0)
		ret = init_lock(a);
	if (ret < 0) {
		close(fd);
		return ret;
	}
	a->magic = CK_ACCOUNT_MAGIC;
	a->seats = seats;
	a->terms = *terms;
	*out = a;
	return fd;
}

#define SET(term) __atomic_store_n(&a->terms.term, terms->term, __ATOMIC_RELAXED)

/* What workers read of the terms. */
void cks_account_change(struct cks_account *a, const struct cks_terms *terms)
{
	SET(memory);
	SET(percent);
	SET(memory_total);
	SET(contexts);
	/* of sessions that begin later */
	SET(m3_memory);
	SET(lanes);
	SET(host_memory);
	SET(output);
	SET(cache);
	SET(bandwidth);
	SET(resume);
	SET(features);
	SET(nvml_own);
	SET(m3_own);
}

/* A worker may hold the lock, so the supervisor only tries to take it. */
int cks_account_take_seat(struct cks_account *a)
{
	int ret = pthread_mutex_trylock(&a->lock);

	take_over(a, ret);
	if (ret == 0 || ret == EOWNERDEAD) {
		clear_left(a);
		pthread_mutex_unlock(&a->lock);
	}
	for (uint32_t i = 0; i < a->seats; i++) {
		uint32_t expected = FREE;

		if (atomic_compare_exchange_strong(&a->slots[i].state, &expected, TAKEN))
			return (int)i;
	}
	return -EUSERS;
}

void cks_account_leave_seat(struct cks_account *a, uint32_t seat)
{
	a->slots[seat].state = LEFT;
	a->left = true;
}

/* --- for a worker */

int cks_account_view(int fd, uint32_t seat, struct cks_account **out)
{
	int seals = fcntl(fd, F_GET_SEALS), ret;
	struct cks_account *a = NULL;
	struct stat st;

	if (seals < 0 || (seals & CK_SEALS) != CK_SEALS || fstat(fd, &st) < 0 ||
	    (size_t)st.st_size < sizeof(*a))
		return -EPROTO;
	ret = map(fd, (size_t)st.st_size, &a);
	if (ret < 0)
		return ret;
	if (a->magic != CK_ACCOUNT_MAGIC || size_of(a->seats) != (size_t)st.st_size ||
	    seat >= a->seats) {
		munmap(a, (size_t)st.st_size);
		return -EPROTO;
	}
	*out = a;
	return 0;
}

int cks_account_map(int fd, uint32_t seat, struct cks_account **out)
{
	int ret = cks_account_view(fd, seat, out);

	if (ret == 0)
		(*out)->slots[seat].pid = (uint32_t)getpid();
	return ret;
}

uint64_t cks_account_seat_used(struct cks_account *a, uint32_t seat, int device)
{
	uint64_t used;

	lock(a);
	used = a->slots[seat].used[device];
	pthread_mutex_unlock(&a->lock);
	return used;
}

bool cks_account_has(const struct cks_account *a, unsigned int pid)
{
	for (uint32_t i = 0; i < a->seats; i++) {
		if (a->slots[i].state == TAKEN && a->slots[i].pid == pid)
			return true;
	}
	return false;
}

void cks_account_terms(const struct cks_account *a, struct cks_terms *out)
{
	*out = a->terms;
}

uint64_t cks_account_limit(const struct cks_account *a, uint64_t total)
{
	uint64_t bytes = __atomic_load_n(&a->terms.memory, __ATOMIC_RELAXED);
	uint32_t percent = __atomic_load_n(&a->terms.percent, __ATOMIC_RELAXED);

	if (bytes)
		return ck_min(bytes, total);
	return percent ? total * percent / 100 : CK_ACCOUNT_UNLIMITED;
}

uint64_t cks_account_context_limit(const struct cks_account *a)
{
	uint32_t contexts = __atomic_load_n(&a->terms.contexts, __ATOMIC_RELAXED);

	return contexts ? contexts : CK_ACCOUNT_UNLIMITED;
}

int cks_account_device(struct cks_account *a, const unsigned char uuid[16])
{
	int device = 0, count;

	lock(a);
	count = (int)a->device_count;
	while (device < count && memcmp(a->uuid[device], uuid, 16) != 0)
		device++;
	if (device == count && count < CK_ACCOUNT_DEVICES) {
		memcpy(a->uuid[device], uuid, 16);
		a->device_count++;
	}
	pthread_mutex_unlock(&a->lock);
	return device < CK_ACCOUNT_DEVICES ? device : -1;
}

/* What all devices together may still give. Call with the lock held. */
static uint64_t left_in_all(const struct cks_account *a, uint64_t most)
{
	uint64_t left = most;

	for (uint32_t d = 0; d < CK_ACCOUNT_DEVICES; d++)
		left -= ck_min(left, a->total[d]);
	return left;
}

static uint64_t limit_of_all(const struct cks_account *a)
{
	uint64_t bytes = __atomic_load_n(&a->terms.memory_total, __ATOMIC_RELAXED);

	return bytes ? bytes : CK_ACCOUNT_UNLIMITED;
}

uint64_t cks_account_left(struct cks_account *a, uint64_t *most)
{
	uint64_t left = CK_ACCOUNT_UNLIMITED;

	*most = limit_of_all(a);
	if (*most == CK_ACCOUNT_UNLIMITED)
		return left;
	lock(a);
	clear_left(a);
	left = left_in_all(a, *most);
	pthread_mutex_unlock(&a->lock);
	return left;
}

/* Call with the lock held. */
static bool fits(const struct cks_account *a, int device, uint64_t bytes, uint64_t most)
{
	uint64_t all = limit_of_all(a);

	if (most != CK_ACCOUNT_UNLIMITED && (bytes > most || a->total[device] > most - bytes))
		return false;
	return device == CK_ACCOUNT_CONTEXTS || all == CK_ACCOUNT_UNLIMITED ||
	       bytes <= left_in_all(a, all);
}

static void take(struct cks_account *a, uint32_t seat, int device, uint64_t bytes)
{
	a->slots[seat].used[device] += bytes;
	a->total[device] += bytes;
}

bool cks_account_charge(struct cks_account *a, uint32_t seat, int device, uint64_t bytes,
			uint64_t most)
{
	bool yes;

	lock(a);
	clear_left(a);
	yes = fits(a, device, bytes, most);
	if (yes)
		take(a, seat, device, bytes);
	pthread_mutex_unlock(&a->lock);
	return yes;
}

void cks_account_move(struct cks_account *a, uint32_t seat, int device, uint64_t bytes)
{
	lock(a);
	clear_left(a);
	take(a, seat, device, bytes);
	pthread_mutex_unlock(&a->lock);
}

void cks_account_refund(struct cks_account *a, uint32_t seat, int device, uint64_t bytes)
{
	lock(a);
	bytes = ck_min(bytes, a->slots[seat].used[device]);
	a->slots[seat].used[device] -= bytes;
	a->total[device] -= ck_min(bytes, a->total[device]);
	pthread_mutex_unlock(&a->lock);
}

uint64_t cks_account_used(struct cks_account *a, int device)
{
	uint64_t used;

	lock(a);
	clear_left(a);
	used = a->total[device];
	pthread_mutex_unlock(&a->lock);
	return used;
}

void cks_account_unmap(struct cks_account *a)
{
	if (a)
		munmap(a, size_of(a->seats));
}
