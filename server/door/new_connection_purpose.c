/*
 * server/door/new_connection_purpose.c - the purpose of a new connection, by its first record; see
 * new_connection.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cricket.h"
#include "rpc/relayed.h"
#include "rpc/tls.h"
#include "server/children/workers.h"
#include "server/door/absent_sessions.h"
#include "server/door/answer.h"
#include "server/door/disconnected_sessions.h"
#include "server/door/new_connection_part.h"
#include "server/processes/connection_peek.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define CK_AGAIN_MS 20	/* until a partial record is peeked at again */
#define CK_LOOK_MS 3	/* until a client whose GPUs are being looked at is considered again */
#define CK_QUEUE_MS 100 /* until a client that waits for a session is considered again */

/* The reply to a link whose session is on another server, or about to leave. */
struct moved {
	ck_link_res res;
	ck_link_moved where;
};

static bool_t code_moved(XDR *xdrs, struct moved *moved)
{
	return xdr_ck_link_res(xdrs, &moved->res) && xdr_ck_link_moved(xdrs, &moved->where);
}

/* Is its session away? Closed without an answer, a client tries again. */
static bool answer_away(const struct cks_absent_sessions *away, int fd,
			enum cks_connection_peek kind, const struct cks_peeked *p)
{
	bool leaves = false;
	const char *address = away ? cks_absent_sessions_find(away, p->session, &leaves) : NULL;
	struct moved moved = {.res.status = 3, .where.address = (char *)(uintptr_t)address};

	if (address && kind == CK_PEEK_LINK && (address[0] || leaves))
		cks_answer(fd, p, (xdrproc_t)code_moved, &moved);
	return address;
}

/* Pass it to its session. True: keep it and ask the worker again. */
static bool join_session(struct cks_new_connection_list *l, struct cks_new_connection *f,
			 enum cks_connection_peek kind, const struct cks_peeked *p, int64_t now)
{
	ck_join_res joined = {.status = 1};
	ck_link_res linked = {.status = 1};
	ck_direct_res met = {.status = 1};
	int ret;

	if (answer_away(l->away, f->fd, kind, p))
		return false;
	ret = cks_workers_join(l->admission.workers, p->session, f->fd);
	cks_new_connection_set_joining(l, f, ret == -EAGAIN && now < f->deadline);
	f->again = now + CK_JOIN_MS;
	if (ret == 0 || f->joining)
		return f->joining;
	ck_info("a connection to no session: %s", strerror(-ret));
	/* A client gives its session up after such an answer; without one it tries again, so a
	 * worker that has been busy for long does not lose its session. */
	if (kind == CK_PEEK_LINK && ret == -ENOENT)
		cks_answer(f->fd, p, (xdrproc_t)xdr_ck_link_res, &linked);
	else if (kind == CK_PEEK_DIRECT)
		cks_answer(f->fd, p, (xdrproc_t)xdr_ck_direct_res, &met);
	else if (kind == CK_PEEK_JOIN)
		cks_answer(f->fd, p, (xdrproc_t)xdr_ck_join_res, &joined);
	return false;
}

/*
 * A ClientHello that names a session: its worker makes the handshake. A session that is not here
 * has none, so the front process does, and the client's first message is answered over TLS. True:
 * keep it.
 */
static bool join_with_secret(struct cks_new_connection_list *l, struct cks_new_connection *f,
			     const struct cks_peeked *p, int64_t now)
{
	int ret;

	if (f->stage != CK_STAGE_PLAIN || ck_relayed_get(f->fd, NULL) ||
	    (l->away && cks_absent_sessions_find(l->away, p->session, NULL)))
		return cks_new_connection_unwrap(l, f, now);
	ret = cks_workers_join(l->admission.workers, p->session, f->fd);
	cks_new_connection_set_joining(l, f, ret == -EAGAIN && now < f->deadline);
	if (ret == -ENOENT)
		return cks_new_connection_unwrap(l, f, now);
	f->again = now + CK_JOIN_MS;
	if (ret < 0 && !f->joining)
		ck_info("a connection to a session: %s", strerror(-ret));
	return f->joining;
}

/* A further connection must be as safe as the first one. */
static bool lacks_tls(const struct cks_new_connection_list *l, const struct cks_new_connection *f,
		      enum cks_connection_peek kind)
{
	char name[CK_PEER_NAME];

	if ((kind != CK_PEEK_JOIN && kind != CK_PEEK_LINK && kind != CK_PEEK_DIRECT) ||
	    !cks_hello_check_wants_tls(l->admission.options, f->fd))
		return false;
	ck_warn("%s: a connection without TLS for a session: closed (--tls)",
		cks_peer_name(&f->peer, name));
	return true;
}

/* Has the peer closed its side? Bytes in the buffer hide that from recv. */
static bool hung_up(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLRDHUP};

	return poll(&p, 1, 0) > 0;
}

/* It waits for its answer, until @until at most. */
static void hold_connection(struct cks_new_connection *f, int64_t until)
{
	if (f->held)
		return;
	f->held = until;
	f->deadline = until + CK_SILENCE_MS;
}

/* Answer what the server could give, or hold the connection while the GPUs are being looked at.
 * True: keep it. */
static bool answer_offer(struct cks_new_connection_list *l, struct cks_new_connection *f,
			 const unsigned char *bytes, const struct cks_peeked *p, int64_t now)
{
	if (!cks_offers_serve(&l->offers, &l->admission, f->fd, &f->peer, bytes, p))
		return false;
	if (f->held && now >= f->held) {
		cks_offers_give_up(f->fd, p);
		return false;
	}
	hold_connection(f, now + CK_OFFER_MS);
	f->again = now + CK_LOOK_MS;
	return !hung_up(f->fd);
}

/* Admit a client, or hold it for a while if it waits for a session. True: keep it. */
static bool admit_client(struct cks_new_connection_list *l, struct cks_new_connection *f,
			 const unsigned char *bytes, const struct cks_peeked *p, int64_t now)
{
	enum cks_gpu_turn turn = f->held && now >= f->held ? CK_TURN_LAST : CK_TURN_HOLD;

	if (f->held && hung_up(f->fd))
		turn = CK_TURN_GONE;
	l->admission.since = f->born;
	l->admission.looking = false;
	if (!cks_admit(&l->admission, f->fd, &f->peer, bytes, p, turn))
		return false;
	cks_new_connection_set_joining(l, f, true);
	hold_connection(f, now + CK_QUEUE_HOLD_MS);
	f->again = now + (l->admission.looking ? CK_LOOK_MS : CK_QUEUE_MS);
	return true;
}

/* Do what the first record of @f asks for, which is of @kind; false: the connection is done
 * with. */
static bool handle_record(struct cks_new_connection_list *l, struct cks_new_connection *f,
			  enum cks_connection_peek kind, unsigned char *bytes, struct cks_peeked *p,
			  int64_t now)
{
	switch (kind) {
	case CK_PEEK_PROBE:
		return cks_new_connection_probed(l, f, p);
	case CK_PEEK_HANDSHAKE:
		return cks_new_connection_unwrap(l, f, now);
	case CK_PEEK_SECRET:
		return join_with_secret(l, f, p, now) && !hung_up(f->fd);
	case CK_PEEK_MORE:
		f->again = now + CK_AGAIN_MS;
		return !hung_up(f->fd);
	case CK_PEEK_GARBAGE:
		ck_info("a connection that does not use RPC: closed");
		return false;
	case CK_PEEK_HELLO:
		return admit_client(l, f, bytes, p, now);
	case CK_PEEK_JOIN:
	case CK_PEEK_LINK:
	case CK_PEEK_DIRECT:
		return join_session(l, f, kind, p, now) && !hung_up(f->fd);
	case CK_PEEK_FILES:
		cks_downloads_serve(&l->downloads, &l->admission, f->fd, &f->peer, bytes, p);
		return false;
	case CK_PEEK_OFFER:
		return answer_offer(l, f, bytes, p, now);
	case CK_PEEK_ENDED:
		cks_disconnected_serve(l->admission.workers, &l->admission, f->fd, &f->peer, bytes,
				       p);
		return false;
	default:
		f->answered = true;
		return cks_answer_small(f->fd, kind, p);
	}
}

bool cks_new_connection_look(struct cks_new_connection_list *l, struct cks_new_connection *f,
			     int64_t now)
{
	unsigned char bytes[CK_PEEK_MAX];
	struct cks_peeked p;
	enum cks_connection_peek kind;
	ssize_t n = recv(f->fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);

	f->again = 0;
	f->ready = false;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0) {
		ck_debug("a connection ends %s", f->answered ? "after its answer" : "unheard");
		return false;
	}
	if (cks_new_connection_proved(l, f, bytes))
		return true; /* the bytes behind it make the connection readable */
	if (cks_new_connection_refused(l, f, bytes, (size_t)n))
		return false;
	cks_new_connection_received(l, f);
	kind = cks_connection_peek(bytes, (size_t)n, &p);
	if (lacks_tls(l, f, kind))
		return false;
	if (!l->fronts && kind == CK_PEEK_PROBE)
		kind = CK_PEEK_NULL;
	else if (bytes[0] == CK_TLS_FIRST_BYTE ? !l->fronts : f->probed)
		kind = CK_PEEK_GARBAGE;
	return handle_record(l, f, kind, bytes, &p, now);
}
