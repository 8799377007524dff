/*
 * m3/copier.c - the broker's side of the copier: starting it, and one order at a time.
 *
 * The copier has a context, so it is a process of its own: a device that fails takes down a copier,
 * whose orders fail, and no region.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "m3/broker.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("m3");

struct ck_m3_job {
	struct ck_m3_job *next;
	struct ck_m3_conn *conn; /* NULL: gone */
	struct ck_m3_piece *to, *from;
	struct ck_m3_reply reply;
	uint32_t op;
	struct ck_m3_order *order; /* of all bytes; data that was read is gathered in it */
	uint64_t size, at, step;   /* bytes: all, done, of the order under way; 0: none is */
};

struct ck_m3_copier {
	const char *driver;
	int sock; /* -1: not running */
	pid_t pid;
	struct ck_m3_job *first, **last; /* the first one is under way */
};

struct ck_m3_copier *ck_m3_copier_create(const char *driver)
{
	struct ck_m3_copier *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->driver = driver;
	c->sock = -1;
	c->last = &c->first;
	return c;
}

static void stop_copier(struct ck_m3_copier *c)
{
	if (c->sock >= 0)
		close(c->sock);
	c->sock = -1;
	if (c->pid > 0)
		kill(c->pid, SIGKILL); /* the broker's loop reaps it */
	c->pid = 0;
}

void ck_m3_copier_destroy(struct ck_m3_copier *c)
{
	struct ck_m3_job *next;

	if (!c)
		return;
	stop_copier(c);
	for (struct ck_m3_job *j = c->first; j; j = next) {
		next = j->next;
		free(j->order);
		free(j);
	}
	free(c);
}

static _Noreturn void become_copier(const struct ck_m3_copier *c, int sock)
{
	sigset_t none;
	int high = fcntl(sock, F_DUPFD_CLOEXEC, 10);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (high >= 0 && dup2(high, CK_M3_COPIER_FD) >= 0)
		execl("/proc/self/exe", "m3-copier", CK_M3_COPIER_OPTION, c->driver, NULL);
	_exit(127);
}

static int start_copier(struct ck_m3_copier *c)
{
	int pair[2];

	if (c->sock >= 0)
		return 0;
	if (!c->driver)
		return -ENODEV;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	c->pid = fork();
	if (c->pid == 0)
		become_copier(c, pair[1]);
	close(pair[1]);
	c->sock = pair[0];
	if (c->pid < 0)
		stop_copier(c);
	return c->pid < 0 ? -EAGAIN : 0;
}

int ck_m3_copier_fd(const struct ck_m3_copier *c)
{
	return c->sock;
}

/* The part of a region that has byte @offset, the offset in that part, and the bytes left in it. */
static const struct ck_m3_part *part_at(const struct ck_m3_piece *p, uint64_t *offset,
					uint64_t *left)
{
	const struct ck_m3_part *part = &p->parts[*offset / p->part_size];

	*offset %= p->part_size;
	*left = ck_min(*left, p->part_size - *offset);
	return part;
}

/* The next bytes of a job, as many as lie in one part of each region. */
static int send_order(struct ck_m3_copier *c, struct ck_m3_job *j)
{
	static struct ck_m3_order o;
	const struct ck_m3_order *all = j->order;
	const struct ck_m3_part *to, *from = NULL;
	int ret = start_copier(c);

	memcpy(&o, all, offsetof(struct ck_m3_order, data));
	j->step = j->size - j->at;
	o.offset[0] += j->at;
	o.offset[1] += j->at;
	to = part_at(j->to, &o.offset[0], &j->step);
	if (j->from)
		from = part_at(j->from, &o.offset[1], &j->step);
	o.size = j->step;
	o.device[0] = to->device;
	o.piece_size[0] = j->to->part_size;
	o.device[1] = from ? from->device : 0;
	o.piece_size[1] = from ? j->from->part_size : 0;
	o.data_size = j->op == CK_M3_WRITE ? (uint32_t)j->step : 0;
	memcpy(o.data, all->data + j->at, o.data_size);
	if (ret == 0)
		ret = ck_m3_send(c->sock, &o, offsetof(struct ck_m3_order, data) + o.data_size,
				 NULL, 0, to->fd, 0);
	if (ret == 0 && from)
		ret = ck_m3_send(c->sock, "", 1, NULL, 0, from->fd, 0);
	return ret;
}

/* The region that was made has its zeros, or is none. */
static void finish_creation(struct ck_m3_broker *b, struct ck_m3_job *j, int status)
{
	j->to->creating = false;
	b->changed = true;
	if (status == M3_OK)
		return;
	j->to->detached = false;
	if (j->conn) {
		struct ck_m3_reference *h = ck_m3_reference_find(j->conn, j->to);

		if (h)
			ck_m3_reference_release(b, j->conn, h);
	}
}

static void finish_job(struct ck_m3_broker *b, int status)
{
	struct ck_m3_copier *c = b->copier;
	struct ck_m3_job *j = c->first;

	c->first = j->next;
	if (!c->first)
		c->last = &c->first;
	if (j->op == CK_M3_ALLOC)
		finish_creation(b, j, status);
	b->changed = true; /* a seal may wait for it */
	j->to->jobs--;
	if (j->from)
		j->from->jobs--;
	if (j->conn) {
		j->conn->job = NULL;
		j->reply.status = status;
		ck_m3_answer(b, j->conn, &j->reply, j->order->data,
			     status == M3_OK && j->op == CK_M3_READ ? j->size : 0, -1);
	}
	ck_m3_piece_check(b, j->to);
	if (j->from && j->from != j->to)
		ck_m3_piece_check(b, j->from);
	free(j->order);
	free(j);
}

/* The order under way is done, and with it the job or a part of it. */
static void advance_job(struct ck_m3_broker *b, const struct ck_m3_done *done)
{
	struct ck_m3_job *j = b->copier->first;

	if (done->status == M3_OK && j->op == CK_M3_READ && done->data_size == j->step)
		memcpy(j->order->data + j->at, done->data, j->step);
	j->at += j->step;
	j->step = 0;
	if (done->status != M3_OK || j->at == j->size)
		finish_job(b, done->status);
}

/* Send the first job that can be sent; those that cannot fail. */
static void send_next_order(struct ck_m3_broker *b)
{
	struct ck_m3_copier *c = b->copier;
	int ret;

	while (c->first && c->first->step == 0) {
		ret = send_order(c, c->first);
		if (ret == 0)
			return;
		ck_err("no order to the copier: %s", strerror(-ret));
		stop_copier(c);
		finish_job(b, M3_EIO);
	}
}

int ck_m3_copier_submit(struct ck_m3_broker *b, struct ck_m3_ask *ask, struct ck_m3_piece *to,
			struct ck_m3_piece *from)
{
	const struct ck_m3_request *q = ask->q;
	struct ck_m3_job *j = calloc(1, sizeof(*j));
	struct ck_m3_order *o = j ? malloc(sizeof(*o)) : NULL;
	bool idle = b->copier->first == NULL;

	if (!o) {
		free(j);
		return M3_ENOMEM;
	}
	memset(o, 0, offsetof(struct ck_m3_order, data));
	o->op = q->op == CK_M3_ALLOC ? CK_M3_FILL : q->op;
	o->pieces = from ? 2 : 1;
	if (q->op != CK_M3_ALLOC) {
		o->offset[0] = q->offset;
		o->offset[1] = q->from_offset;
		o->value = q->value;
	}
	memcpy(o->data, ask->data, q->data_size);
	*j = (struct ck_m3_job){.conn = ask->conn,
				.to = to,
				.from = from,
				.reply = ask->reply,
				.op = q->op,
				.order = o,
				.size = q->op == CK_M3_ALLOC   ? to->size
					: q->op == CK_M3_WRITE ? q->data_size
							       : q->size};
	to->jobs++;
	if (from)
		from->jobs++;
	ask->conn->job = j;
	*b->copier->last = j;
	b->copier->last = &j->next;
	if (idle)
		send_next_order(b);
	return ask->conn->job ? CK_M3_LATER : CK_M3_ANSWERED;
}

void ck_m3_copier_read(struct ck_m3_broker *b)
{
	static struct ck_m3_done done;
	struct ck_m3_copier *c = b->copier;
	int fd;
	long n = ck_m3_receive(c->sock, &done, sizeof(done), &fd, MSG_DONTWAIT);

	if (fd >= 0)
		close(fd);
	if (n == -EAGAIN)
		return;
	if (n < (long)offsetof(struct ck_m3_done, data) ||
	    done.data_size != (size_t)n - offsetof(struct ck_m3_done, data) || !c->first) {
		ck_warn("the copier has ended");
		stop_copier(c);
		if (c->first)
			finish_job(b, M3_EDEVLOST);
		ck_m3_notify(b, M3_ON_DEVICE_LOST, NULL, NULL);
	} else {
		advance_job(b, &done);
	}
	send_next_order(b);
}

bool ck_m3_copier_writes(const struct ck_m3_copier *c, const struct ck_m3_piece *piece)
{
	const struct ck_m3_job *j = c->first;

	while (j && (j->to != piece || j->op == CK_M3_READ))
		j = j->next;
	return j != NULL;
}

void ck_m3_copier_forget(struct ck_m3_copier *c, struct ck_m3_conn *conn)
{
	for (struct ck_m3_job *j = c->first; j; j = j->next) {
		if (j->conn == conn)
			j->conn = NULL;
	}
}
