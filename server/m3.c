/*
 * server/m3.c - a worker's connection to the memory broker, and regions of M3 for its client.
 *
 * The client's requests go to the broker as they come, but for the hello, which is the worker's
 * own: it says for whom it acts. Descriptors stay here; the client gets handles.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gen/handlers.h"
#include "server/session.h"
#include "server/share.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

static struct {
	pthread_mutex_t lock; /* one question at a time */
	const char *path;
	char principal[M3_PRINCIPAL_MAX]; /* empty: the server's own user */
	int sock;
	struct ck_m3_question question;
	struct ck_m3_answer answer;
} broker = {.lock = PTHREAD_MUTEX_INITIALIZER, .sock = -1};

void ck_broker_link(const char *path, int client)
{
	struct sockaddr_storage peer;
	struct ucred who;
	socklen_t size = sizeof(peer), cred = sizeof(who);

	broker.path = path;
	if (getpeername(client, (struct sockaddr *)&peer, &size) == 0 &&
	    peer.ss_family == AF_UNIX &&
	    getsockopt(client, SOL_SOCKET, SO_PEERCRED, &who, &cred) == 0)
		snprintf(broker.principal, sizeof(broker.principal), "uid:%u",
			 (unsigned int)who.uid);
}

/* --- one question and its answer; the lock is held */

static int exchange(size_t size, int fd_out, int *fd)
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
	struct ck_m3_request kept = broker.question.head;
	int fd = -1, status;

	if (broker.sock >= 0)
		return M3_OK;
	broker.sock = broker.path ? ck_m3_dial(broker.path) : -ENOENT;
	if (broker.sock < 0) {
		ck_warn("no memory broker at %s: %s", broker.path ? broker.path : "any place",
			strerror(-broker.sock));
		return M3_EIO;
	}
	ck_m3_request_init(&broker.question.head, CK_M3_HELLO);
	strcpy(broker.question.head.principal, broker.principal);
	status = exchange(sizeof(broker.question.head), -1, &fd);
	broker.question.head = kept;
	if (fd >= 0)
		close(fd);
	if (status == M3_OK)
		status = broker.answer.head.status;
	return status == -EPIPE ? M3_EIO : status;
}

/*
 * The question that stands in the buffer. A broker that has gone is a lost connection, told once.
 */
static int ask(size_t size, int fd_out, int *fd)
{
	int status;

	*fd = -1;
	status = connect_broker();
	if (status == M3_OK)
		status = exchange(size, fd_out, fd);
	return status;
}

int ck_broker_ask(struct ck_m3_request *request, const void *data, int fd_out, void *back,
		  size_t room, size_t *size, int *fd, uint64_t *number)
{
	int got = -1, status;

	pthread_mutex_lock(&broker.lock);
	for (int tries = 0; tries < 2; tries++) { /* a broker that was lost is there anew */
		broker.question.head = *request;
		memcpy(broker.question.data, data ? data : "", request->data_size);
		status = ask(sizeof(*request) + request->data_size, fd_out, &got);
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
	pthread_mutex_unlock(&broker.lock);
	if (status != M3_OK && got >= 0)
		close(got);
	*fd = status == M3_OK ? got : -1;
	return status;
}

CUresult ck_broker_error(int status)
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
 * A request of libm3's. Deposits are for the worker, not for its client. The client's hello is
 * answered by that of the connection; a connection that is lost is told as such, since the client
 * has to know.
 */
CUresult ck_serve_ck_m3_call(struct ck_request *q, ck_m3_call_args *a, ck_m3_call_res *res)
{
	size_t size = a->request.request_len;
	int fd = -1, status;

	(void)q;
	if (size < sizeof(struct ck_m3_request) || size > sizeof(broker.question))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&broker.lock);
	memcpy(&broker.question, a->request.request_val, size);
	status = ck_m3_request_check(&broker.question, size);
	if (broker.question.head.op >= CK_M3_DEPOSIT || broker.question.head.op == CK_M3_HALT ||
	    broker.question.head.op == CK_M3_SUBSCRIBE)
		status = M3_EPERM;
	if (status == M3_OK && broker.question.head.op == CK_M3_HELLO) {
		status = connect_broker();
		memset(&broker.answer.head, 0, sizeof(broker.answer.head));
		broker.answer.head.op = CK_M3_HELLO;
	} else if (status == M3_OK) {
		status = broker.sock < 0 ? -EPIPE : exchange(size, -1, &fd);
	}
	if (status == -EPIPE)
		goto unlock;
	if (status != M3_OK || broker.answer.head.op == CK_M3_HELLO) {
		broker.answer.head.magic = CK_M3_MAGIC;
		broker.answer.head.version = CK_M3_VERSION;
		broker.answer.head.op = broker.question.head.op;
		broker.answer.head.status = status;
		broker.answer.head.data_size = 0;
	}
	size = sizeof(broker.answer.head) + broker.answer.head.data_size;
	res->reply.reply_val = malloc(size);
	if (res->reply.reply_val) {
		memcpy(res->reply.reply_val, &broker.answer, size);
		res->reply.reply_len = (u_int)size;
	}
unlock:
	pthread_mutex_unlock(&broker.lock);
	if (fd >= 0)
		close(fd); /* of a FETCH: ck_m3_import asks for its own */
	return res->reply.reply_val ? CUDA_SUCCESS : CUDA_ERROR_SYSTEM_NOT_READY;
}

/* A region that the session has open, as a handle of the session's. */
CUresult ck_serve_ck_m3_import(struct ck_request *q, ck_m3_import_args *a, ck_m3_import_res *res)
{
	CUmemGenericAllocationHandle handle = 0;
	struct ck_m3_request request;
	uint64_t number;
	size_t none;
	CUresult err;
	int fd;

	if (!ck_driver.cuMemImportFromShareableHandle || !ck_driver.cuMemRelease)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (a->access != M3_READ && a->access != M3_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	ck_m3_request_init(&request, CK_M3_FETCH);
	request.region = a->region;
	request.access = a->access;
	err = ck_broker_error(ck_broker_ask(&request, NULL, -1, NULL, 0, &none, &fd, &number));
	if (err || fd < 0)
		return err ? err : CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd,
						       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	close(fd);
	ck_m3_request_init(&request, CK_M3_UNMAP); /* libm3 has fetched it too: that one counts */
	request.region = a->region;
	ck_broker_ask(&request, NULL, -1, NULL, 0, &none, &fd, &number);
	if (!err)
		err = ck_share_read_only(handle, a->access == M3_READ);
	return err ? err : ck_physical_adopt(q, a->object, handle, res->prop);
}
