/*
 * client/status.c - see client/status.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/client.h"
#include "client/delivery.h"
#include "client/status.h"
#include "util/log.h"
#include "util/spin.h"

CK_LOG_DEFINE("client");

#define WORD_BITS 16		/* of a number, as in server/status.h */
#define WORDS ((size_t)1 << WORD_BITS)
#define SIZE (WORDS * sizeof(uint64_t))
#define STATE_DONE 1u		/* low two bits of a word */
#define TRUST_NS 250000000	/* a server that is gone is found out after this */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool tried;
static _Atomic uint64_t *_Atomic words;	/* a number and its state; NULL: nobody tells us */
static _Atomic uint64_t numbers;

/* Memory that the worker writes; NULL: it is not on this host, or does not want it. */
static void *share(void)
{
	ck_status_file_args args = { .size = SIZE };
	ck_status_file_res res = { 0 };
	int fd = memfd_create("cricket status", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *at = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, (off_t)SIZE) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED &&
	    (ck_call_fd(CK_PROC_ck_status_file, &args, &res, fd) || !res.taken)) {
		munmap(at, SIZE);
		at = MAP_FAILED;
	}
	if (fd >= 0)
		close(fd);
	return at == MAP_FAILED ? NULL : at;
}

static void *make(void)
{
	void *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	if (ck_delivery_listen())
		return at;
	munmap(at, SIZE);
	return NULL;
}

static void open_once(void)
{
	pthread_mutex_lock(&lock);
	if (!tried) {
		words = ck_client.passes_fds ? share() : make();
		if (!words)
			ck_info("the server cannot tell when events are done: it is asked");
	}
	tried = true;
	pthread_mutex_unlock(&lock);
}

uint64_t ck_status_number(uint64_t id)
{
	if (unlikely(!atomic_load(&words)))
		open_once();
	return atomic_load(&words) ? (atomic_fetch_add(&numbers, 1) + 1) << WORD_BITS |
					     (id & (WORDS - 1)) : 0;
}

/* Of two threads that ask at the same time the later number counts, as it does for the server. */
void ck_status_watched(struct ck_watch *watch, uint64_t of, uint64_t number)
{
	pthread_mutex_lock(&lock);
	if (number > watch->number) {
		watch->asked_ns = ck_now_ns();
		watch->number = number;
		watch->of = of;
	}
	pthread_mutex_unlock(&lock);
}

void ck_status_news(uint64_t number, uint64_t state)
{
	_Atomic uint64_t *at = atomic_load(&words);

	if (at)
		atomic_store(&at[number & (WORDS - 1)], number << 2 | (state & 3));
}

enum ck_status ck_status_look(const struct ck_watch *watch, uint64_t of)
{
	_Atomic uint64_t *at = atomic_load(&words);
	uint64_t number, word;

	if (!at || watch->of != of)
		return CK_STATUS_UNKNOWN;
	number = watch->number;
	word = atomic_load(&at[number & (WORDS - 1)]);
	if (word >> 2 == number)
		return (word & 3) == STATE_DONE ? CK_STATUS_DONE : CK_STATUS_UNKNOWN;
	if (ck_now_ns() - watch->asked_ns > TRUST_NS)
		return CK_STATUS_UNKNOWN;
	ck_spin_give_way();
	return CK_STATUS_PENDING;
}
