/*
 * tests/e2e/throw_session.c - a session as a client opens it, and moving bytes over its lanes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "cricket.h"
#include "rpc/proc.h"
#include "rpc/record.h"
#include "tests/e2e/throw.h"
#include "util/hash.h"
#include "util/util.h"

#define STALL_MS 1000  /* a session that is idle for so long hangs */
#define CLOSE_MS 20000 /* for the server to close a session; sanitizers are slow */

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- opening a session as a client does */

/* One call and its answer, blocking. */
static int call(struct ck_chan *chan, uint32_t proc, xdrproc_t xdr_args, const void *args,
		xdrproc_t xdr_res, void *res)
{
	unsigned char buf[4096];
	struct ck_reader *reader;
	struct ck_record record;
	uint32_t xid, low, high;
	size_t at;
	XDR xdrs;
	long n = ck_call_encode(buf, sizeof(buf), 1, proc, xdr_args, args, 0);
	struct iovec iov = {.iov_base = buf, .iov_len = (size_t)n};
	int ret = n < 0 ? (int)n : ck_chan_writev(chan, &iov, 1);

	if (ret < 0 || ck_reader_create(chan, &reader) < 0)
		return ret < 0 ? ret : -ENOMEM;
	ret = ck_reader_next(reader, &record);
	if (ret == 0)
		ret = ck_reply_decode(record.body, record.body_size, &xid, &at, &low, &high);
	if (ret == 0) {
		xdrmem_create(&xdrs, (char *)record.body + at, (u_int)(record.body_size - at),
			      XDR_DECODE);
		ret = xdr_res(&xdrs, res) ? 0 : -EBADMSG;
	}
	ck_reader_destroy(reader);
	return ret;
}

void push(struct lane *l, const void *bytes, size_t size)
{
	if (size > 0)
		memcpy(l->out + l->out_size, bytes, size);
	l->out_size += size;
}

/* A command that is as it should be. */
static void command(struct session *s, uint32_t proc, void *args, const void *payload, size_t size)
{
	static unsigned char buf[8192];
	struct ck_head *head = args;
	long n;

	*head = (struct ck_head){.seq = ++s->world.seq, .ctx = ID_CONTEXT};
	n = ck_call_encode(buf, sizeof(buf), 1, proc, ck_proc(proc)->xdr_args, args, size);
	if (n < 0)
		abort();
	push(&s->lane[0], buf, (size_t)n);
	push(&s->lane[0], payload, size);
	push(&s->lane[0], "\0\0\0", CK_ALIGN_UP(size, 4u) - size);
}

void send_image(struct session *s, const char *image, size_t size, struct ck_hash *hash)
{
	ck_image_args args = {.size = size, .data_length = (u_int)size};

	ck_hash(image, size, hash);
	memcpy(args.hash, hash->bytes, sizeof(args.hash));
	command(s, CK_PROC_image, &args, image, size);
}

void load(struct session *s, uint64_t id, bool library, const struct ck_hash *hash,
	  uint64_t function)
{
	ck_module_load_args args = {.module = id, .library = library};
	ck_function_args f = {.function = function, .module = id, .name = (char *)"store"};

	memcpy(args.hash, hash->bytes, sizeof(args.hash));
	command(s, CK_PROC_module_load, &args, NULL, 0);
	command(s, CK_PROC_function, &f, NULL, 0);
}

static void make_objects(struct session *s)
{
	ck_primary_retain_args context = {.context = ID_CONTEXT};
	cuStreamCreateWithPriority_args stream = {.phStream = ID_STREAM};
	cuEventCreate_args event = {.phEvent = ID_EVENT};
	struct ck_hash hash;

	command(s, CK_PROC_primary_retain, &context, NULL, 0);
	send_image(s, image_good, strlen(image_good), &hash);
	load(s, ID_MODULE, false, &hash, ID_FUNCTION);
	load(s, ID_LIBRARY, true, &hash, ID_KERNEL);
	command(s, CK_PROC_cuStreamCreateWithPriority, &stream, NULL, 0);
	command(s, CK_PROC_cuEventCreate, &event, NULL, 0);
}

static int join_lanes(struct session *s, const ck_hello_res *hello)
{
	int ret = 0;

	for (int i = 0; i < LANES && ret == 0; i++) {
		ck_join_args args = {.lane = i == 0 ? CK_LANE_COMMAND : CK_LANE_CALL};
		ck_join_res res;

		if (i == 1)
			continue; /* the connection of the hello */
		memcpy(args.session, hello->session, sizeof(args.session));
		memcpy(args.key, hello->key, sizeof(args.key));
		ret = ck_chan_dial(s->address, CLOSE_MS, &s->lane[i].chan);
		if (ret == 0)
			ret = call(s->lane[i].chan, CK_JOIN, (xdrproc_t)xdr_ck_join_args, &args,
				   (xdrproc_t)xdr_ck_join_res, &res);
		if (ret == 0 && res.status != 0)
			ret = -EACCES;
	}
	return ret;
}

int session_open(struct session *s, const char *address)
{
	ck_hello_args args = {.protocol = CK_PROTOCOL,
			      .release = (char *)"0",
			      .pid = 1,
			      .application = (char *)"throw",
			      .host = (char *)"test"};
	cuMemAlloc_v2_args alloc = {.bytesize = THROW_MEMORY};
	cuMemAlloc_v2_res memory = {0};
	ck_hello_res hello = {0};
	int ret = ck_chan_dial(address, CLOSE_MS, &s->lane[1].chan);

	s->address = address;
	if (ret == 0)
		ret = call(s->lane[1].chan, CK_HELLO, (xdrproc_t)xdr_ck_hello_args, &args,
			   (xdrproc_t)xdr_ck_hello_res, &hello);
	if (ret == 0 && hello.status != CK_HELLO_OK)
		ret = -EACCES;
	if (ret == 0)
		ret = join_lanes(s, &hello);
	xdr_free((xdrproc_t)xdr_ck_hello_res, (char *)&hello);
	if (ret < 0)
		return ret;
	make_objects(s);
	if (!pump(s, false))
		return -ETIMEDOUT;
	alloc.head = (ck_head){.seq = s->world.seq, .ctx = ID_CONTEXT};
	ret = call(s->lane[1].chan, CK_PROC_cuMemAlloc_v2, (xdrproc_t)xdr_cuMemAlloc_v2_args,
		   &alloc, (xdrproc_t)xdr_cuMemAlloc_v2_res, &memory);
	if (ret == 0 && memory.head.err != 0) {
		fprintf(stderr, "throw: the session's own objects: error %d\n", memory.head.err);
		ret = -EIO;
	}
	s->world.memory = memory.dptr;
	return ret;
}

void session_close(struct session *s)
{
	for (int i = 0; i < LANES; i++) {
		if (s->lane[i].chan)
			ck_chan_close(s->lane[i].chan);
		s->lane[i] = (struct lane){.out = s->lane[i].out};
	}
}

/* --- moving bytes: all that has been collected goes out while answers come in */

/* Replies are not looked at, only counted. */
static void count_replies(struct lane *l, const unsigned char *at, size_t size)
{
	while (size > 0) {
		size_t n = ck_min(size, l->left);

		if (l->left == 0) {
			l->mark[l->mark_size++] = *at;
			n = 1;
			if (l->mark_size == 4) {
				l->left = (size_t)(l->mark[0] & 0x7f) << 24 | l->mark[1] << 16 |
					  l->mark[2] << 8 | l->mark[3];
				l->mark_size = 0;
			}
		} else {
			l->left -= n;
			l->replies += l->left == 0;
		}
		at += n;
		size -= n;
	}
}

static bool lane_move(struct lane *l, short events)
{
	static unsigned char in[1 << 18];
	ssize_t n = 0;

	if (events & (POLLIN | POLLHUP | POLLERR)) {
		n = recv(ck_chan_fd(l->chan), in, sizeof(in), MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN))
			l->closed = true;
		else if (n > 0)
			count_replies(l, in, (size_t)n);
	}
	if ((events & POLLOUT) && !l->closed) {
		n = send(ck_chan_fd(l->chan), l->out + l->out_at, l->out_size - l->out_at,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			l->closed = true;
		else if (n > 0)
			l->out_at += (size_t)n;
		if (l->out_at == l->out_size)
			l->out_at = l->out_size = 0;
	}
	return n > 0;
}

bool pump(struct session *s, bool answers)
{
	int64_t moved = now_ms();

	for (;;) {
		struct pollfd fds[LANES];
		bool busy = false;

		for (int i = 0; i < LANES; i++) {
			struct lane *l = &s->lane[i];
			bool out = l->out_at < l->out_size;

			if (l->closed)
				return false;
			busy |= out || (answers && l->replies < l->calls);
			fds[i] = (struct pollfd){ck_chan_fd(l->chan),
						 (short)(POLLIN | (out ? POLLOUT : 0)), 0};
		}
		if (!busy)
			return true;
		poll(fds, LANES, STALL_MS);
		for (int i = 0; i < LANES; i++) {
			if (lane_move(&s->lane[i], fds[i].revents))
				moved = now_ms();
		}
		if (now_ms() - moved > STALL_MS)
			return false;
	}
}

bool wait_closed(struct session *s)
{
	struct pollfd fd = {.fd = ck_chan_fd(s->lane[0].chan), .events = POLLIN};
	int64_t deadline = now_ms() + CLOSE_MS;

	while (!s->lane[0].closed && now_ms() < deadline) {
		poll(&fd, 1, 100);
		lane_move(&s->lane[0], fd.revents);
		for (int i = 1; i < LANES; i++) /* so that nobody waits for us to read */
			lane_move(&s->lane[i], POLLIN);
	}
	return s->lane[0].closed;
}
