/*
 * server/memory/m3.c - a worker's connection to the memory broker, and M3 regions for its client.
 *
 * The client's requests are passed to the broker unchanged, except for the hello, which is the
 * worker's own and names the principal. Descriptors stay here; the client gets handles.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gen/handlers.h"
#include "m3/shim.h"
#include "rpc/relayed.h"
#include "server/memory/m3_devices.h"
#include "server/memory/share.h"
#include "server/policy/meter.h"
#include "server/policy/terms.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

static struct {
	struct ck_mutex lock; /* one question at a time */
	const char *path;
	char principal[M3_PRINCIPAL_MAX]; /* the user that the client acts for */
	char payer[M3_PRINCIPAL_MAX];	  /* the client's identity */
	bool owner; /* the client's user, as the kernel reports it, is the broker's or root */
	int sock;
	struct ck_m3_question question;
	struct ck_m3_answer answer;
} broker = {.lock = CK_MUTEX(CK_RANK_M3_BROKER), .sock = -1};

void cks_broker_link(const char *path, int client, uid_t server)
{
	struct sockaddr_storage peer;
	struct ucred who = {.uid = server}; /* default, for a client on another host */
	socklen_t size = sizeof(peer), cred = sizeof(who);

	broker.path = path;
	if (!ck_relayed_get(client, NULL) &&
	    getpeername(client, (struct sockaddr *)&peer, &size) == 0 &&
	    peer.ss_family == AF_UNIX &&
	    getsockopt(client, SOL_SOCKET, SO_PEERCRED, &who, &cred) == 0)
		broker.owner = who.uid == server || who.uid == 0;
	snprintf(broker.principal, sizeof(broker.principal), "uid:%u", (unsigned int)who.uid);
}

/* No user has such a name; and half of the key is unique enough. */
void cks_broker_set_account(const struct ck_hash *key)
{
	size_t at = (size_t)snprintf(broker.payer, sizeof(broker.payer), "key:");

	for (size_t i = 0; i < CK_HASH_SIZE / 2; i++)
		at += (size_t)snprintf(broker.payer + at, sizeof(broker.payer) - at, "%02x",
				       key->bytes[i]);
}

bool cks_broker_has_m3(void)
{
	struct cks_terms terms;

	cks_meter_terms(&terms);
	return terms.features & CK_FEATURE_M3;
}

/* --- connection; needs no lock, since the worker's link is not changed */

int cks_broker_exchange(int sock, const struct ck_m3_request *request)
{
	struct ck_m3_reply reply;
	int fd = -1;
	long n = ck_m3_send(sock, request, sizeof(*request), NULL, 0, -1, 0);

	if (n == 0)
		n = ck_m3_receive(sock, &reply, sizeof(reply), &fd, 0);
	if (fd >= 0)
		close(fd);
	if (n != (long)sizeof(reply) || reply.magic != CK_M3_MAGIC || reply.op != request->op)
		return M3_EIO;
	return reply.status;
}

/* Say hello, and who pays. */
static int send_hello(int sock)
{
	struct ck_m3_request hello, bill;
	struct cks_terms terms;
	int status;

	ck_m3_request_init(&hello, CK_M3_HELLO);
	strcpy(hello.principal, broker.principal);
	status = cks_broker_exchange(sock, &hello);
	cks_meter_terms(&terms);
	if (status != M3_OK || (terms.m3_memory == 0 && !terms.m3_own) || !broker.payer[0])
		return status;
	ck_m3_request_init(&bill, CK_M3_BILL);
	strcpy(bill.principal, broker.payer);
	bill.size = terms.m3_memory;
	return cks_broker_exchange(sock, &bill);
}

int cks_broker_connect(int *out)
{
	int status, sock = broker.path ? ck_m3_dial(broker.path) : -ENOENT;

	if (sock < 0) {
		ck_warn("no memory broker at %s: %s", broker.path ? broker.path : "any place",
			strerror(-sock));
		return M3_EIO;
	}
	status = send_hello(sock);
	if (status == M3_OK)
		*out = sock;
	else
		close(sock);
	return status;
}

/* --- one request and its answer; call with the lock held */

static int exchange_request(size_t size, int fd_out, int *fd)
{
	int ret = ck_m3_send(broker.sock, &broker.question, size, NULL, 0, fd_out, 0);
	long n = ret < 0 ? ret
			 : ck_m3_receive(broker.sock, &broker.answer, sizeof(broker.answer), fd, 0);

	if (n > 0)
		return ck_m3_reply_check(&broker.answer, (size_t)n, broker.question.head.op);
	close(broker.sock);
	broker.sock = -1;
	return -EPIPE;
}

static int connect_broker(void)
{
	return broker.sock >= 0 ? M3_OK : cks_broker_connect(&broker.sock);
}

/*
 * Send the request in the buffer. If the broker is gone, that is reported once, as a lost
 * connection.
 */
static int ask_broker(size_t size, int fd_out, int *fd)
{
	int status;

	*fd = -1;
	status = connect_broker();
	if (status == M3_OK)
		status = exchange_request(size, fd_out, fd);
	return status;
}

int cks_broker_ask(struct ck_m3_request *request, const void *data, int fd_out, void *back,
		   size_t room, size_t *size, int *fd, uint64_t *number)
{
	int got = -1, status;

	ck_lock(&broker.lock);
	for (int tries = 0; tries < 2; tries++) { /* a broker that was lost is there anew */
		broker.question.head = *request;
		memcpy(broker.question.data, data ? data : "", request->data_size);
		status = ask_broker(sizeof(*request) + request->data_size, fd_out, &got);
		if (status != -EPIPE)
			break;
	}
	if (status == -EPIPE)
		status = M3_EIO;
	if (status == M3_OK)
		status = broker.answer.head.status;
	if (status == M3_OK && broker.answer.head.data_size > room)
		status = M3_EPROTO;
	if (status == M3_OK) {
		if (broker.answer.head.data_size > 0)
			memcpy(back, broker.answer.data, broker.answer.head.data_size);
		*size = broker.answer.head.data_size;
		*number = broker.answer.head.region;
	}
	ck_unlock(&broker.lock);
	if (status != M3_OK && got >= 0)
		close(got);
	*fd = status == M3_OK ? got : -1;
	return status;
}

CUresult cks_broker_error(int status)
{
	switch (status) {
	case M3_OK:
		return CUDA_SUCCESS;
	case M3_EPERM:
	case M3_ENOENT:
	case M3_ESTALE:
		return CUDA_ERROR_INVALID_HANDLE;
	case M3_ENOMEM:
	case M3_EQUOTA:
		return CUDA_ERROR_OUT_OF_MEMORY;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

/* --- messages */

/*
 * Events deposited with regions are the driver's, so that programs on this host can use them too.
 * The client has its own handles (m3/shim.h); translate them.
 */
static int event_in(void *data, size_t size)
{
	struct ck_ipc_handle h;
	struct cks_ticket ticket;
	CUipcEventHandle handle;
	CUresult err;
	int fd = -1;

	memcpy(&h, data, sizeof(h));
	if (size != sizeof(h) || memcmp(h.mark, CK_IPC_MARK, sizeof(h.mark)) != 0 ||
	    h.kind != CK_IPC_EVENT)
		return M3_EINVAL;
	ticket.number = h.number;
	memcpy(ticket.key, h.key, sizeof(h.key));
	err = cks_share_claim(&ticket, sizeof(ticket), &handle, sizeof(handle), &size, &fd);
	if (fd >= 0)
		close(fd);
	if (err || size != sizeof(handle))
		return M3_EINVAL;
	memcpy(data, &handle, sizeof(handle));
	return M3_OK;
}

static int event_out(void *data, size_t size)
{
	struct ck_ipc_handle h = {.mark = CK_IPC_MARK, .kind = CK_IPC_EVENT};
	struct cks_ticket ticket;

	if (size != sizeof(h) || cks_share_handle(0, data, size, &ticket))
		return M3_EIO;
	h.number = ticket.number;
	memcpy(h.key, ticket.key, sizeof(h.key));
	memcpy(data, &h, sizeof(h));
	return M3_OK;
}

/*
 * Pass a request to the broker, or answer the hello, which the worker has sent when it connected.
 * Report a lost connection with -EPIPE: the client must know.
 */
static int pass_on(const struct ck_m3_question *question, size_t size, struct ck_m3_answer *answer)
{
	int fd = -1, status;

	ck_lock(&broker.lock);
	memcpy(&broker.question, question, size);
	if (question->head.op == CK_M3_HELLO)
		status = connect_broker();
	else
		status = broker.sock < 0 ? -EPIPE : exchange_request(size, -1, &fd);
	if (status == M3_OK && question->head.op != CK_M3_HELLO)
		memcpy(answer, &broker.answer,
		       sizeof(broker.answer.head) + broker.answer.head.data_size);
	ck_unlock(&broker.lock);
	if (fd >= 0)
		close(fd); /* unused result of FETCH: ck_m3_import requests its own */
	return status;
}

/*
 * Requests that a client must not make: deposits are for the worker, and news use another path. The
 * broker trusts the worker, so access to quotas is checked here, by the broker's rules.
 */
static bool request_is_forbidden(const struct ck_m3_request *q)
{
	if (!cks_broker_has_m3())
		return true;
	switch (q->op) {
	case CK_M3_HALT:
	case CK_M3_SUBSCRIBE:
		return true;
	case CK_M3_QUOTA_SET:
		return !broker.owner;
	case CK_M3_QUOTA_GET:
		return !broker.owner && q->principal[0] && strcmp(q->principal, broker.principal);
	default:
		return q->op >= CK_M3_DEPOSIT;
	}
}

static bool sees_own_names_only(void)
{
	struct cks_terms terms;

	cks_meter_terms(&terms);
	return terms.m3_own;
}

/* Answer a request of libm3. */
static int answer_to(struct ck_m3_question *question, size_t size, struct ck_m3_answer *answer)
{
	unsigned int op = question->head.op;
	int status = ck_m3_request_check(question, size);

	memset(&answer->head, 0, sizeof(answer->head));
	if (status == M3_OK && request_is_forbidden(&question->head))
		status = M3_EPERM;
	if (op == CK_M3_LEASE)
		question->head.value = 0; /* no waiting: it would block the session */
	if (op == CK_M3_LIST && sees_own_names_only())
		question->head.value = 1;
	if (status == M3_OK && op == CK_M3_EVENT_SET)
		status = event_in(question->data, question->head.data_size);
	cks_m3_devices_out(&question->head);
	if (status == M3_OK)
		status = pass_on(question, size, answer);
	if (status == M3_OK && op != CK_M3_HELLO)
		cks_m3_devices_in(answer);
	if (status == M3_OK && op == CK_M3_EVENT_GET && answer->head.status == M3_OK)
		status = event_out(answer->data, answer->head.data_size);
	if (status != M3_OK || op == CK_M3_HELLO) {
		memset(&answer->head, 0, sizeof(answer->head));
		answer->head.magic = CK_M3_MAGIC;
		answer->head.version = CK_M3_VERSION;
		answer->head.op = (uint16_t)op;
		answer->head.status = status;
	}
	return status == -EPIPE ? -EPIPE : 0;
}

CUresult ck_serve_m3_call(struct cks_request *q, ck_m3_call_args *a, ck_m3_call_res *res)
{
	size_t size = a->request.request_len;
	struct {
		struct ck_m3_question question;
		struct ck_m3_answer answer;
	} * room;
	CUresult err = CUDA_ERROR_SYSTEM_NOT_READY;

	(void)q;
	if (size < sizeof(struct ck_m3_request) || size > sizeof(room->question))
		return CUDA_ERROR_INVALID_VALUE;
	room = malloc(sizeof(*room));
	if (!room)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(&room->question, a->request.request_val, size);
	if (answer_to(&room->question, size, &room->answer) == 0)
		err = CUDA_SUCCESS;
	if (!err) {
		size = sizeof(room->answer.head) + room->answer.head.data_size;
		res->reply.reply_val = malloc(size);
		err = res->reply.reply_val ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!err) {
		memcpy(res->reply.reply_val, &room->answer, size);
		res->reply.reply_len = (u_int)size;
	}
	free(room);
	return err;
}

/* Import a region that the session has open, as a handle of the session. */
CUresult ck_serve_m3_import(struct cks_request *q, ck_m3_import_args *a, ck_m3_import_res *res)
{
	CUmemGenericAllocationHandle handle = 0;
	struct ck_m3_request request;
	uint64_t number;
	size_t none;
	CUresult err;
	int fd;

	if (!ck_driver.cuMemImportFromShareableHandle || !ck_driver.cuMemRelease)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_broker_has_m3())
		return CUDA_ERROR_NOT_PERMITTED;
	if (a->access != M3_READ && a->access != M3_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	ck_m3_request_init(&request, CK_M3_FETCH);
	request.region = a->region;
	request.access = a->access;
	request.value = a->part;
	err = cks_broker_error(cks_broker_ask(&request, NULL, -1, NULL, 0, &none, &fd, &number));
	if (err || fd < 0)
		return err ? err : CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd,
						       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	close(fd);
	if (a->part == 0) { /* libm3 has fetched it too: only that one counts */
		ck_m3_request_init(&request, CK_M3_UNMAP);
		request.region = a->region;
		cks_broker_ask(&request, NULL, -1, NULL, 0, &none, &fd, &number);
	}
	return err ? err : cks_share_adopt(q, a->object, handle, a->access == M3_READ, res->prop);
}
