/*
 * server/policy/account.c - see account.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/policy/account.h"
#include "util/process/fd.h"
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

/*
 * The file: its head, a slot for each seat, and the terms that later releases add. Workers of
 * another release map it as well, so the head and the slots stay as they are, and the file grows at
 * its end. Workers can write all of it, even one that a client has taken over.
 */
struct file {
	uint32_t magic, seats;
	char terms[CK_TERMS_FIRST]; /* the limits change: atomically, each alone */
	pthread_mutex_t lock;	    /* between processes, robust: for the rest, except for states */
	_Atomic bool left;	    /* a slot waits to be cleared */
	uint32_t device_count;
	unsigned char uuid[CK_ACCOUNT_DEVICES][16];
	uint64_t total[CK_ACCOUNT_KINDS];
	struct slot slots[];
};

_Static_assert(offsetof(struct file, terms) % 8 == 0, "terms are numbers");

struct cks_account {
	struct file *file;
	uint32_t seats; /* not more than the file has room for, whatever it says */
	size_t size;
};

/* Where the slots end. */
static size_t size_of(uint32_t seats)
{
	return sizeof(struct file) + seats * sizeof(struct slot);
}

/* --- terms: those of the first release are in the head, later ones at the end */

/* Of all numbers that this file reads itself. */
static const struct cks_terms *first_terms(const struct cks_account *a)
{
	return (const struct cks_terms *)(const void *)a->file->terms;
}

/* Where the term at @offset of struct cks_terms is; NULL: the file is of a release that has no such
 * term. */
static void *find_term(const struct cks_account *a, size_t offset, size_t size)
{
	size_t at = size_of(a->seats) + offset - CK_TERMS_HEAD;

	if (offset < CK_TERMS_FIRST)
		return a->file->terms + offset;
	return at + size <= a->size ? (char *)a->file + at : NULL;
}

#define MEMBER(name)                                                                               \
	{                                                                                          \
		offsetof(struct cks_terms, name), sizeof(((struct cks_terms *)0)->name)            \
	}

static const struct term {
	size_t offset, size; /* of a member of struct cks_terms */
} all_terms[] = {
#define CK_TERM(key, kind, type, member, unset, bounds, applies, meaning, usual) MEMBER(member),
#define CK_TERM_PART(type, member, unset) MEMBER(member),
#define CK_TERM_TEXT(key, kind, member, size, applies, meaning, usual) MEMBER(member),
#include "server/policy/terms.def"
#undef CK_TERM
#undef CK_TERM_PART
#undef CK_TERM_TEXT
};

static void store_term(void *at, const void *value, size_t size)
{
	if (size == 8)
		__atomic_store_n((uint64_t *)at, *(const uint64_t *)value, __ATOMIC_RELAXED);
	else if (size == 4)
		__atomic_store_n((uint32_t *)at, *(const uint32_t *)value, __ATOMIC_RELAXED);
	else
		memcpy(at, value, size);
}

/* Workers read some while their sessions run, and the others when a session begins. */
void cks_account_change(struct cks_account *a, const struct cks_terms *terms)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(all_terms); i++) {
		const struct term *t = &all_terms[i];
		void *at = find_term(a, t->offset, t->size);

		if (at)
			store_term(at, (const char *)terms + t->offset, t->size);
	}
}

void cks_account_terms(const struct cks_account *a, struct cks_terms *out)
{
	*out = cks_terms_none();
	for (size_t i = 0; i < CK_ARRAY_SIZE(all_terms); i++) {
		const struct term *t = &all_terms[i];
		const void *at = find_term(a, t->offset, t->size);

		if (at)
			memcpy((char *)out + t->offset, at, t->size);
	}
}

/* --- the lock: its owner may have been killed in the middle of a change */

static void sum_up(struct cks_account *a)
{
	memset(a->file->total, 0, sizeof(a->file->total));
	for (uint32_t i = 0; i < a->seats; i++) {
		if (a->file->slots[i].state == FREE)
			continue;
		for (uint32_t d = 0; d < CK_ACCOUNT_KINDS; d++)
			a->file->total[d] += a->file->slots[i].used[d];
	}
}

static void take_over(struct cks_account *a, int ret)
{
	if (ret != EOWNERDEAD)
		return;
	a->file->device_count = ck_min(a->file->device_count, (uint32_t)CK_ACCOUNT_DEVICES);
	sum_up(a);
	pthread_mutex_consistent(&a->file->lock);
}

static void lock_account(struct cks_account *a)
{
	take_over(a, pthread_mutex_lock(&a->file->lock));
}

/* Clear the slots of sessions that have ended. Call with the lock held. */
static void clear_left(struct cks_account *a)
{
	if (!atomic_exchange(&a->file->left, false))
		return;
	for (uint32_t i = 0; i < a->seats; i++) {
		struct slot *s = &a->file->slots[i];
		uint32_t expected = LEFT;

		if (s->state != LEFT)
			continue;
		memset(s->used, 0, sizeof(s->used));
		atomic_compare_exchange_strong(&s->state, &expected, FREE); /* or it is taken */
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
	ret = -pthread_mutex_init(&a->file->lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
	return ret;
}

static int map_account(int fd, size_t size, struct cks_account **out)
{
	struct cks_account *a = malloc(sizeof(*a));
	void *at = a ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

	if (at == MAP_FAILED) {
		free(a);
		return -ENOMEM;
	}
	*a = (struct cks_account){.file = at, .size = size};
	*out = a;
	return 0;
}

void cks_account_unmap(struct cks_account *a)
{
	if (!a)
		return;
	munmap(a->file, a->size);
	free(a);
}

int cks_account_create(const struct cks_terms *terms, uint32_t seats, struct cks_account **out)
{
	int fd = memfd_create("cricket-account", MFD_CLOEXEC | MFD_ALLOW_SEALING), ret;
	size_t size = size_of(seats) + CK_TERMS_LATER;
	struct cks_account *a = NULL;

	if (fd < 0)
		return -errno;
	ret = ck_fd_resize(fd, (off_t)size);
	if (ret == 0 && fcntl(fd, F_ADD_SEALS, CK_SEALS) < 0)
		ret = -errno;
	if (ret == 0)
		ret = map_account(fd, size, &a);
	if (ret == 0)
		ret = init_lock(a);
	if (ret < 0) {
		cks_account_unmap(a);
		close(fd);
		return ret;
	}
	a->file->magic = CK_ACCOUNT_MAGIC;
	a->file->seats = a->seats = seats;
	cks_account_change(a, terms);
	*out = a;
	return fd;
}

static bool take_if(struct slot *slot, uint32_t state)
{
	return atomic_compare_exchange_strong(&slot->state, &state, TAKEN);
}

/* Does not take the lock: a worker may hold it, or may have changed the pointers inside of it. The
 * next worker clears a seat that was left. */
int cks_account_take_seat(struct cks_account *a)
{
	static const uint32_t states[] = {FREE, LEFT};

	for (size_t k = 0; k < CK_ARRAY_SIZE(states); k++) {
		for (uint32_t i = 0; i < a->seats; i++) {
			if (take_if(&a->file->slots[i], states[k]))
				return (int)i;
		}
	}
	return -EUSERS;
}

void cks_account_leave_seat(struct cks_account *a, uint32_t seat)
{
	a->file->slots[seat].state = LEFT;
	a->file->left = true;
}

/* --- for a worker */

int cks_account_view(int fd, uint32_t seat, struct cks_account **out)
{
	int seals = fcntl(fd, F_GET_SEALS), ret;
	struct cks_account *a = NULL;
	struct stat st;

	if (seals < 0 || (seals & CK_SEALS) != CK_SEALS || fstat(fd, &st) < 0 ||
	    st.st_size < (off_t)size_of(1))
		return -EPROTO;
	ret = map_account(fd, (size_t)st.st_size, &a);
	if (ret < 0)
		return ret;
	a->seats = a->file->seats;
	if (a->file->magic != CK_ACCOUNT_MAGIC || seat >= a->seats || size_of(a->seats) > a->size) {
		cks_account_unmap(a);
		return -EPROTO;
	}
	*out = a;
	return 0;
}

int cks_account_map(int fd, uint32_t seat, struct cks_account **out)
{
	int ret = cks_account_view(fd, seat, out);
	struct slot *slot;

	if (ret < 0)
		return ret;
	lock_account(*out);
	slot = &(*out)->file->slots[seat];
	memset(slot->used, 0, sizeof(slot->used)); /* of the session that had it before */
	slot->pid = (uint32_t)getpid();
	sum_up(*out);
	pthread_mutex_unlock(&(*out)->file->lock);
	return 0;
}

void cks_account_look(const struct cks_account *a, uint32_t seat, const unsigned char uuid[16],
		      uint64_t *own, uint64_t *others)
{
	uint32_t count = __atomic_load_n(&a->file->device_count, __ATOMIC_RELAXED), device = 0;

	*own = *others = 0;
	count = ck_min(count, (uint32_t)CK_ACCOUNT_DEVICES);
	while (device < count && memcmp(a->file->uuid[device], uuid, 16) != 0)
		device++;
	for (uint32_t i = 0; device < count && i < a->seats; i++) {
		if (i == seat)
			*own = a->file->slots[i].used[device];
		else if (a->file->slots[i].state == TAKEN)
			*others += a->file->slots[i].used[device];
	}
}

bool cks_account_has(const struct cks_account *a, unsigned int pid)
{
	for (uint32_t i = 0; i < a->seats; i++) {
		if (a->file->slots[i].state == TAKEN && a->file->slots[i].pid == pid)
			return true;
	}
	return false;
}

uint64_t cks_account_limit(const struct cks_account *a, uint64_t total)
{
	uint64_t bytes = __atomic_load_n(&first_terms(a)->memory, __ATOMIC_RELAXED);
	uint32_t percent = __atomic_load_n(&first_terms(a)->percent, __ATOMIC_RELAXED);

	if (bytes)
		return ck_min(bytes, total);
	return percent ? total * percent / 100 : CK_ACCOUNT_UNLIMITED;
}

uint64_t cks_account_context_limit(const struct cks_account *a)
{
	uint32_t contexts = __atomic_load_n(&first_terms(a)->contexts, __ATOMIC_RELAXED);

	return contexts ? contexts : CK_ACCOUNT_UNLIMITED;
}

int cks_account_device(struct cks_account *a, const unsigned char uuid[16])
{
	int device = 0, count;

	lock_account(a);
	count = (int)a->file->device_count;
	while (device < count && memcmp(a->file->uuid[device], uuid, 16) != 0)
		device++;
	if (device == count && count < CK_ACCOUNT_DEVICES) {
		memcpy(a->file->uuid[device], uuid, 16);
		a->file->device_count++;
	}
	pthread_mutex_unlock(&a->file->lock);
	return device < CK_ACCOUNT_DEVICES ? device : -1;
}

/* The bytes that all devices together may still give. Call with the lock held. */
static uint64_t left_in_all(const struct cks_account *a, uint64_t most)
{
	uint64_t left = most;

	for (uint32_t d = 0; d < CK_ACCOUNT_DEVICES; d++)
		left -= ck_min(left, a->file->total[d]);
	return left;
}

static uint64_t limit_of_all(const struct cks_account *a)
{
	uint64_t bytes = __atomic_load_n(&first_terms(a)->memory_total, __ATOMIC_RELAXED);

	return bytes ? bytes : CK_ACCOUNT_UNLIMITED;
}

uint64_t cks_account_left(struct cks_account *a, uint64_t *most)
{
	uint64_t left = CK_ACCOUNT_UNLIMITED;

	*most = limit_of_all(a);
	if (*most == CK_ACCOUNT_UNLIMITED)
		return left;
	lock_account(a);
	clear_left(a);
	left = left_in_all(a, *most);
	pthread_mutex_unlock(&a->file->lock);
	return left;
}

/* Call with the lock held. */
static bool charge_fits(const struct cks_account *a, int device, uint64_t bytes, uint64_t most)
{
	uint64_t all = limit_of_all(a);

	if (most != CK_ACCOUNT_UNLIMITED && (bytes > most || a->file->total[device] > most - bytes))
		return false;
	return device == CK_ACCOUNT_CONTEXTS || all == CK_ACCOUNT_UNLIMITED ||
	       bytes <= left_in_all(a, all);
}

static void add_charge(struct cks_account *a, uint32_t seat, int device, uint64_t bytes)
{
	a->file->slots[seat].used[device] += bytes;
	a->file->total[device] += bytes;
}

bool cks_account_charge(struct cks_account *a, uint32_t seat, int device, uint64_t bytes,
			uint64_t most)
{
	bool yes;

	lock_account(a);
	clear_left(a);
	yes = charge_fits(a, device, bytes, most);
	if (yes)
		add_charge(a, seat, device, bytes);
	pthread_mutex_unlock(&a->file->lock);
	return yes;
}

void cks_account_move(struct cks_account *a, uint32_t seat, int device, uint64_t bytes)
{
	lock_account(a);
	clear_left(a);
	add_charge(a, seat, device, bytes);
	pthread_mutex_unlock(&a->file->lock);
}

void cks_account_refund(struct cks_account *a, uint32_t seat, int device, uint64_t bytes)
{
	lock_account(a);
	bytes = ck_min(bytes, a->file->slots[seat].used[device]);
	a->file->slots[seat].used[device] -= bytes;
	a->file->total[device] -= ck_min(bytes, a->file->total[device]);
	pthread_mutex_unlock(&a->file->lock);
}

uint64_t cks_account_used(struct cks_account *a, int device)
{
	uint64_t used;

	lock_account(a);
	clear_left(a);
	used = a->file->total[device];
	pthread_mutex_unlock(&a->file->lock);
	return used;
}
