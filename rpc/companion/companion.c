/*
 * rpc/companion/companion.c - see companion.h.
 *
 * A shell starts the program in the background and waits for the end of a pipe, whose other end
 * this process keeps open. So a companion ends even if this process is killed. A second pipe, which
 * only the program holds, tells that it has ended. Its messages go to a file, whose last line
 * explains a failure.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rpc/companion/companion.h"
#include "rpc/companion/start.h"
#include "rpc/transport/transport.h"
#include "util/process/private_fds.h"
#include "util/until.h"
#include "util/util.h"
#include "util/wait.h"

#define COMPANIONS 16
#define LEAST_MS 60000
#define STEP_MS 10
#define LAST_WORDS_MS 1000 /* a server that finds no driver closes its connections before it ends */

struct companion {
	char address[512]; /* empty: free */
	char folder[96];
	struct ck_private_fd lifeline; /* its end ends the companion */
	struct ck_private_fd sign;     /* its end says that the program has ended */
	int64_t until;		       /* when it is to listen, in ms */
	bool listens;		       /* it has, since it was started */
	bool served; /* one of this address has listened: others may be waited for in attempts */
	char why[CK_COMPANION_WHY];
};

/* Of the process. A forked child shares its parent's companions. */
static struct {
	pthread_mutex_t lock;
	struct companion list[COMPANIONS];
} companions = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The companion of @address; NULL: there is no room. Call with the lock held. */
static struct companion *find_or_add_companion(const char *address)
{
	struct companion *room = NULL;

	for (size_t i = 0; i < COMPANIONS; i++) {
		struct companion *c = &companions.list[i];

		if (strcmp(c->address, address) == 0)
			return c;
		if (!room && !c->address[0])
			room = c;
	}
	if (room && strlen(address) < sizeof(room->address)) {
		*room = (struct companion){.address = ""};
		strcpy(room->address, address);
		return room;
	}
	return NULL;
}

static void let_go(struct companion *c)
{
	ck_private_fd_close(&c->lifeline);
	ck_private_fd_close(&c->sign);
	c->folder[0] = '\0';
}

static int start_companion(const struct ck_address *address, struct companion *c)
{
	int ret;

	c->why[0] = '\0';
	ret = ck_companion_folder(c->folder, sizeof(c->folder));
	if (ret == 0) {
		ret = ck_companion_start(address, c->folder, &c->lifeline, &c->sign);
		if (ret < 0)
			rmdir(c->folder);
	}
	if (ret < 0) {
		c->folder[0] = '\0';
		return ret;
	}
	c->until = ck_now_ms() + LEAST_MS;
	c->listens = false;
	return 0;
}

/* Has the program ended? Waits up to @ms for that. */
static bool companion_has_ended(struct companion *c, int ms)
{
	struct pollfd pfd = {
		.fd = ck_private_fd_number(&c->sign)}; /* -1, which poll passes over: not known */

	return poll(&pfd, 1, ms) > 0;
}

/* Note the last line that the program has written. */
static void note_words(struct companion *c)
{
	char path[sizeof(c->folder) + 8], line[CK_COMPANION_WHY];
	FILE *f;

	snprintf(path, sizeof(path), "%s/log", c->folder);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\r\n")] = '\0';
		if (line[0])
			memcpy(c->why, line, sizeof(line));
	}
	if (f)
		fclose(f);
}

static bool not_there(int error)
{
	return error == -ENOENT || error == -ECONNREFUSED;
}

static int dial_socket(const struct companion *c, int timeout_ms, struct ck_chan **chans,
		       unsigned int count)
{
	struct ck_address socket = {.kind = CK_ADDRESS_UNIX};

	snprintf(socket.path, sizeof(socket.path), "%s/sock", c->folder);
	return ck_transport_unix.dial(&socket, timeout_ms, chans, count);
}

/* Connect to a companion that has been started, once it listens. */
static int connect_companion(struct companion *c, int timeout_ms, struct ck_chan **chans,
			     unsigned int count)
{
	int64_t end =
		c->served ? ck_now_ms() + timeout_ms : ck_max(ck_now_ms() + timeout_ms, c->until);
	int ret;

	for (;;) {
		ret = dial_socket(c, timeout_ms, chans, count);
		if (!not_there(ret))
			break;
		if (companion_has_ended(c, STEP_MS)) {
			note_words(c);
			ret = -ECANCELED;
			break;
		}
		if (ck_now_ms() >= end) {
			ret = -ETIMEDOUT;
			break;
		}
	}
	c->listens = ret == 0;
	c->served |= ret == 0;
	/* one that only takes long is there for the next attempt */
	if (ret < 0 && (ret != -ETIMEDOUT || ck_now_ms() >= c->until))
		let_go(c);
	return ret;
}

static int dial_locked(const struct ck_address *address, struct companion *c, int timeout_ms,
		       struct ck_chan **chans, unsigned int count)
{
	int ret;

	if (c->folder[0] && c->listens) {
		ret = dial_socket(c, timeout_ms, chans, count);
		if (!not_there(ret))
			return ret;
		let_go(c);
	}
	ret = c->folder[0] ? 0 : start_companion(address, c);
	return ret < 0 ? ret : connect_companion(c, timeout_ms, chans, count);
}

/* A thread may have held the lock when the process forked: then the child gives up in the end. */
static int lock_companions(void)
{
	struct timespec until = ck_until(2ull * LEAST_MS * CK_NS_PER_MS);

	return -ck_mutex_lock_until(&companions.lock, &until);
}

/* -ECANCELED: the companion has ended, see ck_companion_ended. */
static int companion_dial(const struct ck_address *address, int timeout_ms, struct ck_chan **chans,
			  unsigned int count)
{
	struct companion *c;
	int ret = lock_companions();

	if (ret < 0)
		return ret;
	c = find_or_add_companion(address->text);
	ret = c ? dial_locked(address, c, timeout_ms, chans, count) : -ENOSPC;
	pthread_mutex_unlock(&companions.lock);
	return ret;
}

const struct ck_transport_ops ck_transport_companion = {
	.name = "companion",
	.dial = companion_dial,
};

bool ck_companion_ended(const char *address, char why[CK_COMPANION_WHY])
{
	bool gone = false;

	why[0] = '\0';
	if (!ck_address_has(address, CK_ADDRESS_STARTS) || lock_companions() < 0)
		return false;
	for (size_t i = 0; i < COMPANIONS; i++) {
		struct companion *c = &companions.list[i];

		if (strcmp(c->address, address) != 0)
			continue;
		if (c->folder[0] && companion_has_ended(c, LAST_WORDS_MS))
			note_words(c);
		gone = !c->folder[0] || companion_has_ended(c, 0);
		memcpy(why, c->why, CK_COMPANION_WHY);
	}
	pthread_mutex_unlock(&companions.lock);
	return gone;
}
