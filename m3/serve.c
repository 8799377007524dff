/*
 * m3/serve.c - requests: judging them, and those about no region in particular.
 */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "m3/broker.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("m3");

#define CONNECTIONS_MAX 1024 /* of one principal */
#define ECHO_MAX 4096

static int serve_hello(struct ck_m3_ask *ask)
{
	struct ck_m3_conn *conn = ask->conn;
	struct ck_m3_principal *p = conn->principal;
	int status;

	if (conn->greeted)
		return M3_EPROTO;
	status = ck_m3_device_of(ask->b, ask->q, &conn->device);
	if (status != M3_OK)
		return status;
	if (ask->q->principal[0] && strcmp(ask->q->principal, p->name) != 0) {
		if (!conn->trusted)
			return M3_EPERM;
		p = ck_m3_principal_get(ask->b, ask->q->principal);
	}
	if (!p)
		return M3_ENOMEM;
	if (p->connections >= CONNECTIONS_MAX)
		return M3_EBUSY; /* its connections keep p */
	p->connections++;
	p->uses++;
	conn->principal->uses--;
	conn->principal = p;
	conn->greeted = true;
	memcpy(ask->reply.info.owner, p->name, sizeof(p->name));
	return M3_OK;
}

static int serve_register(struct ck_m3_ask *ask)
{
	if (ask->conn->registered)
		return M3_EDUPLICATE;
	ask->conn->registered = true;
	ck_info("%s pid %d registers as '%s'", ask->conn->principal->name, (int)ask->conn->pid,
		ask->q->name);
	return M3_OK;
}

static int serve_deregister(struct ck_m3_ask *ask)
{
	if (!ask->conn->registered)
		return M3_ENOENT;
	ask->conn->registered = false;
	return M3_OK;
}

/* --- all of them */

static int serve_general(struct ck_m3_ask *ask)
{
	switch (ask->q->op) {
	case CK_M3_ECHO:
		ask->back = ask->data;
		ask->back_size = ck_min(ask->q->data_size, (uint32_t)ECHO_MAX);
		return M3_OK;
	case CK_M3_HALT:
		ask->b->stop = ask->conn->trusted;
		return ask->conn->trusted ? M3_OK : M3_EPERM;
	case CK_M3_REGISTER:
		return serve_register(ask);
	case CK_M3_DEREGISTER:
		return serve_deregister(ask);
	case CK_M3_ROUND:
		return ck_m3_serve_round(ask);
	case CK_M3_ALLOC:
		return ck_m3_serve_alloc(ask);
	case CK_M3_OPEN:
		return ck_m3_serve_open(ask);
	case CK_M3_UNLINK:
		return ck_m3_serve_unlink(ask);
	case CK_M3_LIST:
		return ck_m3_serve_list(ask);
	case CK_M3_QUOTA_GET:
	case CK_M3_QUOTA_SET:
		return ck_m3_serve_quota(ask, ask->q->op == CK_M3_QUOTA_SET);
	case CK_M3_BILL:
		return ck_m3_serve_bill(ask);
	case CK_M3_TOPOLOGY:
		return ck_m3_serve_topology(ask);
	case CK_M3_SUBSCRIBE:
		ask->conn->events = ask->q->value;
		return M3_OK;
	case CK_M3_DEPOSIT:
	case CK_M3_CLAIM:
	case CK_M3_WITHDRAW:
		return ck_m3_serve_deposit(ask);
	default:
		return ck_m3_serve_region(ask);
	}
}

static void handle_request(struct ck_m3_ask *ask)
{
	struct ck_m3_conn *conn = ask->conn;
	int status;

	if (ask->q->op == CK_M3_HELLO)
		status = serve_hello(ask);
	else
		status = conn->greeted ? serve_general(ask) : M3_EPROTO;
	if (status == CK_M3_LATER) {
		if (conn->job) {
			conn->parked = false; /* the job sends the reply */
		} else if (!conn->parked) {
			conn->parked = true;
			conn->question = *ask->q;
			conn->deadline = ck_now_ms() + ask->q->value;
		}
		return;
	}
	conn->parked = false;
	if (status == CK_M3_ANSWERED)
		return;
	ask->reply.status = status;
	ck_m3_answer(ask->b, conn, &ask->reply, status ? NULL : ask->back,
		     status ? 0 : ask->back_size, status ? -1 : ask->back_fd);
}

void ck_m3_serve(struct ck_m3_broker *b, struct ck_m3_conn *conn, const struct ck_m3_question *q,
		 size_t size, int fd)
{
	struct ck_m3_ask ask = {
		.b = b, .conn = conn, .q = &q->head, .data = q->data, .fd = fd, .back_fd = -1};
	int status = ck_m3_request_check(q, size);

	ask.reply.op = size >= sizeof(q->head) ? q->head.op : 0;
	if (status == M3_OK) {
		handle_request(&ask);
	} else {
		ask.reply.status = status;
		ck_m3_answer(b, conn, &ask.reply, NULL, 0, -1);
		conn->closing = status == M3_EPROTO;
	}
	if (ask.fd >= 0)
		close(ask.fd);
}

void ck_m3_serve_again(struct ck_m3_broker *b, struct ck_m3_conn *conn)
{
	struct ck_m3_request q = conn->question;
	struct ck_m3_ask ask = {.b = b,
				.conn = conn,
				.q = &q,
				.data = (const unsigned char *)"",
				.fd = -1,
				.back_fd = -1,
				.again = true};

	ask.reply.op = q.op;
	handle_request(&ask);
}
