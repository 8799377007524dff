/*
 * server/processes/fresh.c - connections that have not said yet what they are.
 *
 * Their first record is looked at, not taken, so that it can go to a worker with the connection.
 * A record that arrives in parts is looked at again after a moment: polling for more bytes would
 * return at once for those that are there. So is one whose worker has no room for it.
 *
 * Where too many wait, the oldest gives way if it has had the time to speak; else others wait in
 * the listener's queue: the threads of a program may all connect at once, and speak when they run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cricket.h"
#include "rpc/record.h"
#include "server/processes/options.h"
#include "server/processes/peek.h"
#include "server/processes/supervisor.h"
#include "server/processes/token.h"
#include "server/session/version.h"
#include "util/log.h"
#include "util/util.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define CK_SILENCE_MS 10000 /* for the first record to arrive */
#define CK_AGAIN_MS 20	    /* until a record in parts is looked at again */
#define CK_JOIN_MS 2	    /* until a worker is asked again, which is taking others */
#define CK_YOUNG_MS 500	    /* nobody has to give way before */
#define CK_REPLY_SIZE 1024

struct fresh {
	int fd;
	int64_t deadline; /* in ms of CLOCK_MONOTONIC */
	int64_t again;	  /* not to be looked at before; 0: when bytes come */
	bool answered;	  /* it has had an answer: rpcinfo, and the like */
	bool joining;	  /* its worker has had no room */
};

struct ck_fresh_list {
	struct ck_workers *workers;
	const struct ck_options *options;
	size_t count;
	struct fresh list[CK_FRESH_MAX]; /* oldest first */
};

struct ck_fresh_list *ck_fresh_create(struct ck_workers *workers, const struct ck_options *options)
{
	struct ck_fresh_list *l = calloc(1, sizeof(*l));

	if (l) {
		l->workers = workers;
		l->options = options;
	}
	return l;
}

void ck_fresh_destroy(struct ck_fresh_list *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->count; i++)
		close(l->list[i].fd);
	free(l);
}

static void drop(struct ck_fresh_list *l, size_t i)
{
	close(l->list[i].fd);
	l->count--;
	memmove(&l->list[i], &l->list[i + 1], (l->count - i) * sizeof(l->list[0]));
}

/* Who gives way next; the count: nobody. */
static size_t oldest_silent(const struct ck_fresh_list *l)
{
	size_t i = 0;

	while (i < l->count && l->list[i].joining)
		i++;
	return i;
}

/* When one more may come, in ms from now. */
static int64_t room_in(const struct ck_fresh_list *l)
{
	int64_t born;
	size_t i;

	if (l->count < CK_FRESH_MAX)
		return 0;
	i = oldest_silent(l);
	if (i == l->count)
		return CK_JOIN_MS;
	born = l->list[i].deadline - CK_SILENCE_MS;
	return ck_max(born + CK_YOUNG_MS - ck_now_ms(), (int64_t)0);
}

bool ck_fresh_has_room(const struct ck_fresh_list *l)
{
	return room_in(l) == 0;
}

void ck_fresh_add(struct ck_fresh_list *l, int fd)
{
	if (l->count == CK_FRESH_MAX) {
		ck_debug("%d connections that say nothing: the oldest goes", CK_FRESH_MAX);
		drop(l, oldest_silent(l));
	}
	l->list[l->count++] = (struct fresh){ .fd = fd, .deadline = ck_now_ms() + CK_SILENCE_MS };
}

size_t ck_fresh_poll(struct ck_fresh_list *l, struct pollfd *fds, int *timeout_ms)
{
	int64_t now = ck_now_ms(), room = room_in(l);

	if (room > 0 && (*timeout_ms < 0 || room < *timeout_ms))
		*timeout_ms = (int)room;
	for (size_t i = 0; i < l->count; i++) {
		const struct fresh *f = &l->list[i];
		int64_t next = f->again ? f->again : f->deadline;
		int64_t wait = next > now ? next - now : 0;

		if (*timeout_ms < 0 || wait < *timeout_ms)
			*timeout_ms = (int)wait;
		fds[i] = (struct pollfd){ .fd = f->again ? -1 : f->fd, .events = POLLIN };
	}
	return l->count;
}

/* Send what fits at once: answers are shorter than any socket's buffer. */
static bool answer(int fd, const void *bytes, long size)
{
	return size > 0 && send(fd, bytes, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL) == size;
}

/* Take @size bytes off the connection, which have been seen to be there. */
static bool consume(int fd, size_t size)
{
	unsigned char bytes[CK_PEEK_MAX];

	return recv(fd, bytes, size, MSG_DONTWAIT) == (ssize_t)size;
}

/* The answer to a call that needs no session; true: the connection may go on. */
static bool answer_small(int fd, enum ck_peek kind, const struct ck_peeked *p)
{
	unsigned char out[CK_REPLY_SIZE];
	long n;

	if (!consume(fd, p->record))
		return false;
	switch (kind) {
	case CK_PEEK_NULL:
		n = ck_reply_encode(out, sizeof(out), p->xid, ck_code_nothing, NULL, 0);
		break;
	case CK_PEEK_NO_PROGRAM:
		n = ck_refusal_encode(out, sizeof(out), p->xid, PROG_UNAVAIL);
		break;
	case CK_PEEK_NO_VERSION:
		n = ck_refusal_encode(out, sizeof(out), p->xid, PROG_MISMATCH);
		break;
	default:
		n = ck_refusal_encode(out, sizeof(out), p->xid, PROC_UNAVAIL);
		break;
	}
	return answer(fd, out, n);
}

/* Tell a client that no session can be had, so that it can say why. */
static void refuse_hello(int fd, const struct ck_peeked *p, const char *why)
{
	unsigned char out[CK_REPLY_SIZE];
	ck_hello_res res = {
		.status = CK_HELLO_BUSY,
		.message = (char *)why,
		.protocol = CK_PROTOCOL,
		.release = (char *)CK_RELEASE,
	};

	ck_warn("a session is refused: %s", why);
	if (consume(fd, p->record))
		answer(fd, out, ck_reply_encode(out, sizeof(out), p->xid,
						(xdrproc_t)xdr_ck_hello_res, &res, 0));
}

/*
 * Spares are for those who may come in. The others are told so by a process of their own, which
 * judges them again; else anybody could use up what is kept ready for the next client.
 */
static bool may_have_spare(const struct ck_fresh_list *l, const unsigned char *bytes,
			   const struct ck_peeked *p)
{
	ck_hello_args args = { 0 };
	bool may;
	XDR xdrs;

	xdrmem_create(&xdrs, (char *)(uintptr_t)bytes + p->args, (u_int)(p->record - p->args),
		      XDR_DECODE);
	may = xdr_ck_hello_args(&xdrs, &args) && args.protocol == CK_PROTOCOL &&
	      ck_token_admits(l->options->token_file, args.token.token_val, args.token.token_len);
	xdr_free((xdrproc_t)xdr_ck_hello_args, &args);
	return may;
}

static void start_session(struct ck_fresh_list *l, int fd, const unsigned char *bytes,
			  const struct ck_peeked *p)
{
	int ret;

	if (ck_workers_count(l->workers) >= l->options->max_sessions) {
		refuse_hello(fd, p, "the server has no more sessions to give");
		return;
	}
	ret = ck_workers_serve(l->workers, fd, may_have_spare(l, bytes, p));
	if (ret < 0) {
		ck_err("starting a worker: %s", strerror(-ret));
		refuse_hello(fd, p, "the server cannot start another process");
	}
}

/* True: keep it, the worker is to be asked again. */
static bool join_session(struct ck_fresh_list *l, struct fresh *f, const struct ck_peeked *p,
			 int64_t now)
{
	ck_join_res res = { .status = 1 };
	unsigned char out[CK_REPLY_SIZE];
	int ret = ck_workers_join(l->workers, p->session, f->fd);

	f->joining = ret == -EAGAIN && now < f->deadline;
	f->again = now + CK_JOIN_MS;
	if (ret == 0 || f->joining)
		return f->joining;
	ck_info("a connection joins no session: %s", strerror(-ret));
	if (consume(f->fd, p->record))
		answer(f->fd, out, ck_reply_encode(out, sizeof(out), p->xid,
						   (xdrproc_t)xdr_ck_join_res, &res, 0));
	return false;
}

/* Whether the peer has said its last; what it said before hides that from recv. */
static bool hung_up(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0;
}

/* Judge what has arrived on a connection; true: keep it. */
static bool look(struct ck_fresh_list *l, struct fresh *f, int64_t now)
{
	unsigned char bytes[CK_PEEK_MAX];
	struct ck_peeked p;
	enum ck_peek kind;
	ssize_t n = recv(f->fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);

	f->again = 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0) {
		ck_debug("a connection ends %s", f->answered ? "after its answer" : "unheard");
		return false;
	}
	kind = ck_peek(bytes, (size_t)n, &p);
	switch (kind) {
	case CK_PEEK_MORE:
		f->again = now + CK_AGAIN_MS;
		return !hung_up(f->fd);
	case CK_PEEK_GARBAGE:
		ck_info("a connection that speaks no RPC: closed");
		return false;
	case CK_PEEK_HELLO:
		start_session(l, f->fd, bytes, &p);
		return false;
	case CK_PEEK_JOIN:
		return join_session(l, f, &p, now) && !hung_up(f->fd);
	default:
		f->answered = true;
		return answer_small(f->fd, kind, &p);
	}
}

void ck_fresh_run(struct ck_fresh_list *l)
{
	int64_t now = ck_now_ms();
	size_t i = 0;

	while (i < l->count) {
		struct fresh *f = &l->list[i];
		bool keep = f->again > now || look(l, f, now);

		if (keep && now >= f->deadline) {
			ck_info("a connection that said nothing for %d s: closed",
				CK_SILENCE_MS / 1000);
			keep = false;
		}
		if (keep)
			i++;
		else
			drop(l, i);
	}
}
