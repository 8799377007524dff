/*
 * tests/unit/client_peer.h - the server's end of the client's connections, played by the test.
 *
 * peer_read takes one message off a connection. peer_begin makes a whole session, over a unix
 * socket to threads of this program: they keep every message, and answer a call, as a server
 * does, only when the commands that it names have arrived.
 */
#ifndef CK_TEST_CLIENT_PEER_H
#define CK_TEST_CLIENT_PEER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4 */
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/wire/command.h"
#include "rpc/proc.h"
#include "rpc/record.h"
#include "tests/unit/client_session.h"

/* For threads that are not the test's: cmocka's assertions would return to another stack. */
#define peer_check(what)                                                                           \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #what);   \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct peer_message {
	const struct ck_proc *proc;
	uint32_t number, xid; /* of the procedure; of the call */
	void *args;	      /* as the procedure's coder decodes them */
	unsigned char *bulk;
	size_t bulk_size;
	bool unanswered; /* a thread of the peer still uses it */
};

static inline uint64_t peer_seq(const struct peer_message *m)
{
	return ((const ck_head *)m->args)->seq;
}

static inline size_t peer_bulk_size(const struct peer_message *m)
{
	u_int size = 0;

	for (const struct ck_field *f = m->proc->in; f && f->kind != CK_FIELD_END; f++) {
		if (f->kind == CK_FIELD_BULK)
			memcpy(&size, (const char *)m->args + f->offset, sizeof(size));
	}
	return size;
}

/* Arguments of the call in @record, which must be used up to its end by them and the payload. */
static inline int peer_decode(struct ck_reader *reader, const struct ck_record *record, size_t at,
			      struct peer_message *m)
{
	XDR xdrs;
	int ret;

	m->args = calloc(1, m->proc->args_size);
	xdrmem_create(&xdrs, (char *)(uintptr_t)record->body + at, (u_int)(record->body_size - at),
		      XDR_DECODE);
	peer_check(m->proc->xdr_args(&xdrs, m->args));
	at += xdr_getpos(&xdrs);
	m->bulk_size = m->proc->bulk_in ? peer_bulk_size(m) : 0;
	peer_check(at + CK_ALIGN_UP(m->bulk_size, (size_t)4) == record->total);
	m->bulk = malloc(m->bulk_size + 1);
	ret = ck_reader_bulk_begin(reader, at);
	return ret < 0 ? ret : ck_reader_bulk(reader, m->bulk, m->bulk_size);
}

static inline void peer_free(struct peer_message *m)
{
	if (m->args) {
		xdr_free(m->proc->xdr_args, m->args);
		free(m->args);
	}
	free(m->bulk);
}

/* The next message; 0, or what ended the stream. Free with peer_free, also then. */
static inline int peer_read(struct ck_reader *reader, struct peer_message *m)
{
	struct ck_call_header header;
	struct ck_record record;
	int ret = ck_reader_next(reader, &record);

	memset(m, 0, sizeof(*m));
	if (ret < 0)
		return ret;
	peer_check(ck_call_decode(record.body, record.body_size, &header) == 0);
	peer_check(header.program == CK_PROGRAM && header.version == CK_VERSION);
	m->proc = ck_proc(header.proc);
	peer_check(m->proc);
	m->number = header.proc;
	m->xid = header.xid;
	return peer_decode(reader, &record, header.size, m);
}

#define PEER_REPLY_MAX (2u << 20)

/* Encode and send a reply; with @payload where the procedure has one, and @tail behind it. */
static inline void peer_reply(struct ck_chan *chan, uint32_t xid, xdrproc_t xdr, const void *res,
			      const void *payload, size_t size, const uint32_t *tail)
{
	static const unsigned char zero[4];
	/* kept: a sanitizer makes an allocation of this size slow */
	static __thread unsigned char buf[PEER_REPLY_MAX];
	size_t padded = CK_ALIGN_UP(size, (size_t)4);
	uint32_t word = tail ? htonl(*tail) : 0;
	long n = ck_reply_encode(buf, sizeof(buf), xid, xdr, res, tail ? padded + 4 : 0);
	struct iovec iov[] = {
		{buf, (size_t)n},
		{(void *)(uintptr_t)payload, size},
		{(void *)(uintptr_t)zero, padded - size},
		{&word, tail ? 4 : 0},
	};

	peer_check(n > 0);
	ck_chan_writev(chan, iov, 4); /* the client may have given up */
}

/* --- a session */

/* A device of compute capability 9.0, with few registers. */
static ck_attribute peer_attributes[] = {
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
	{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
	{CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
	{CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 8000},
	{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 6},
	{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
	{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, CU_MEM_DECOMPRESS_ALGORITHM_LZ4},
	{CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH, 4096},
};

struct peer_payload {
	const void *data;
	size_t size;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t arrived;
	struct peer_message *log;
	size_t count, room;
	uint64_t seq; /* of the last command that has arrived */
	int listener;
	int file;		/* the newest descriptor that came with a message, or 0 */
	char dir[32], path[40]; /* of the listener */
	/* What the test does with messages, in the peer's threads, and answers to calls. Set
	 * before peer_begin. */
	void (*command)(const struct peer_message *m);
	CUresult (*call)(const struct peer_message *m, void *res, struct peer_payload *payload);
	void (*join)(void); /* a connection asks to join */
	/* May a connection join, with call @xid? False: no, and it closes. NULL: yes. */
	bool (*admit)(struct ck_chan *chan, struct ck_reader *reader, uint32_t xid);
} peer = {.lock = PTHREAD_MUTEX_INITIALIZER, .arrived = PTHREAD_COND_INITIALIZER};

/* Note @m, which is the log's from then on; a call when the commands before it have come. */
static inline void peer_note(const struct peer_message *m)
{
	pthread_mutex_lock(&peer.lock);
	while (!m->proc->one_way && peer.seq < peer_seq(m))
		pthread_cond_wait(&peer.arrived, &peer.lock);
	if (peer.count == peer.room) {
		peer.room = peer.room * 2 + 64;
		peer.log = realloc(peer.log, peer.room * sizeof(*peer.log));
		peer_check(peer.log);
	}
	peer.log[peer.count] = *m;
	peer.log[peer.count++].unanswered = !m->proc->one_way;
	if (m->proc->one_way) {
		peer_check(peer_seq(m) == peer.seq + 1);
		peer.seq++;
		if (peer.command)
			peer.command(m);
	}
	pthread_cond_broadcast(&peer.arrived);
	pthread_mutex_unlock(&peer.lock);
}

static inline void peer_await(uint64_t seq)
{
	pthread_mutex_lock(&peer.lock);
	while (peer.seq < seq)
		pthread_cond_wait(&peer.arrived, &peer.lock);
	pthread_mutex_unlock(&peer.lock);
}

static inline void peer_answer(struct ck_chan *chan, const struct peer_message *m)
{
	struct peer_payload payload = {0};
	void *res = calloc(1, m->proc->res_size);
	uint32_t tail = 0;

	((ck_result *)res)->err = peer.call ? (int)peer.call(m, res, &payload) : 0;
	for (const struct ck_field *f = m->proc->out; f && f->kind != CK_FIELD_END; f++) {
		if (f->kind == CK_FIELD_BULK)
			memcpy((char *)res + f->offset, &(u_int){(u_int)payload.size}, 4);
	}
	peer_reply(chan, m->xid, m->proc->xdr_res, res, payload.data, payload.size,
		   m->proc->bulk_out ? &tail : NULL);
	free(res); /* what it points to is the test's */
}

static inline void peer_mark_answered(const struct peer_message *m)
{
	pthread_mutex_lock(&peer.lock);
	for (size_t i = 0; i < peer.count; i++) {
		if (peer.log[i].args == m->args)
			peer.log[i].unanswered = false;
	}
	pthread_mutex_unlock(&peer.lock);
}

/* The first message of a connection; false when it ends without one. */
static inline bool peer_greet(struct ck_chan *chan, struct ck_reader *reader)
{
	struct ck_call_header header;
	struct ck_record record;
	ck_join_res join = {0};
	ck_hello_res hello = {
		.message = (char *)"",
		.release = (char *)"",
		.driver_version = 13000,
		.accepts_cubin = 1,
		.devices = {2, session_devices},
		.p2p = {2, session_p2p},
	};

	if (ck_reader_next(reader, &record) < 0)
		return false;
	peer_check(ck_call_decode(record.body, record.body_size, &header) == 0);
	peer_check(header.proc == CK_HELLO || header.proc == CK_JOIN);
	if (header.proc == CK_JOIN && peer.join)
		peer.join();
	if (header.proc == CK_JOIN && peer.admit)
		return peer.admit(chan, reader, header.xid);
	if (header.proc == CK_JOIN)
		peer_reply(chan, header.xid, (xdrproc_t)xdr_ck_join_res, &join, NULL, 0, NULL);
	else
		peer_reply(chan, header.xid, (xdrproc_t)xdr_ck_hello_res, &hello, NULL, 0, NULL);
	return true;
}

/* Keep a descriptor that has come along: a call that sends one may look for it. */
static inline void peer_take_fd(struct ck_chan *chan)
{
	int fd = ck_chan_take_fd(chan);

	if (fd < 0)
		return;
	if (peer.file)
		close(peer.file);
	peer.file = fd;
}

static inline void *peer_connection(void *arg)
{
	struct ck_chan *chan = arg;
	struct ck_reader *reader;
	struct peer_message m;

	peer_check(ck_reader_create(chan, &reader) == 0);
	if (peer_greet(chan, reader)) {
		while (peer_read(reader, &m) == 0) {
			peer_take_fd(chan);
			peer_note(&m);
			if (!m.proc->one_way) {
				peer_answer(chan, &m);
				peer_mark_answered(&m);
			}
		}
		peer_free(&m);
	}
	ck_reader_destroy(reader);
	ck_chan_close(chan);
	return NULL;
}

static inline void *peer_accept(void *arg)
{
	for (;;) {
		struct pollfd pfd = {.fd = peer.listener, .events = POLLIN};
		struct ck_chan *chan;
		pthread_t thread;
		int fd;

		poll(&pfd, 1, -1);
		fd = accept4(peer.listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		peer_check(ck_chan_adopt(fd, &chan) == 0);
		peer_check(pthread_create(&thread, NULL, peer_connection, chan) == 0);
		pthread_detach(thread);
	}
	return arg;
}

/* A group set-up: cuInit over a real connection, and a current context on the first device. */
static inline int peer_begin(void **state)
{
	char address[64];
	CUcontext context;
	pthread_t thread;

	(void)state;
	strcpy(peer.dir, "/tmp/ck-test-XXXXXX");
	if (!mkdtemp(peer.dir))
		return -1;
	snprintf(peer.path, sizeof(peer.path), "%s/s", peer.dir);
	snprintf(address, sizeof(address), "unix:%s", peer.path);
	session_devices[0].attributes.attributes_len = CK_ARRAY_SIZE(peer_attributes);
	session_devices[0].attributes.attributes_val = peer_attributes;
	peer.listener = ck_chan_listen(address);
	if (peer.listener < 0 || pthread_create(&thread, NULL, peer_accept, NULL) != 0)
		return -1;
	pthread_detach(thread);
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("CUDA_DEVICE_ORDER");
	setenv("REMOTE_GPU_ADDRESS", address, 1);
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
		return -1;
	return 0;
}

/* Wait until all that was sent has arrived. */
static inline void peer_await_all(void)
{
	ckc_command_flush(ckc_client_current());
	peer_await(ckc_command_number(ckc_client_current()));
}

/* Forget the messages so far. Those that are being answered stay, with no number. */
static inline void peer_clear(void)
{
	size_t kept = 0;

	peer_await_all();
	pthread_mutex_lock(&peer.lock);
	for (size_t i = 0; i < peer.count; i++) {
		if (peer.log[i].unanswered) {
			peer.log[kept] = peer.log[i];
			peer.log[kept++].number = 0;
		} else {
			peer_free(&peer.log[i]);
		}
	}
	peer.count = kept;
	pthread_mutex_unlock(&peer.lock);
}

/* How many messages of procedure @number have come since peer_clear. */
static inline size_t peer_count(uint32_t number)
{
	size_t n = 0;

	peer_await_all();
	pthread_mutex_lock(&peer.lock);
	for (size_t i = 0; i < peer.count; i++)
		n += peer.log[i].number == number;
	pthread_mutex_unlock(&peer.lock);
	return n;
}

/* Arguments of the @index-th message of procedure @number, or NULL; until peer_clear. */
static inline void *peer_args(uint32_t number, size_t index)
{
	void *args = NULL;

	peer_await_all();
	pthread_mutex_lock(&peer.lock);
	for (size_t i = 0; i < peer.count && !args; i++) {
		if (peer.log[i].number == number && index-- == 0)
			args = peer.log[i].args;
	}
	pthread_mutex_unlock(&peer.lock);
	return args;
}

static inline int peer_end(void **state)
{
	peer_clear();
	pthread_mutex_lock(&peer.lock); /* a thread of the client may still send a message */
	while (peer.count > 0)
		peer_free(&peer.log[--peer.count]);
	free(peer.log);
	peer.log = NULL;
	peer.room = 0;
	pthread_mutex_unlock(&peer.lock);
	unlink(peer.path);
	session_end(state);
	return rmdir(peer.dir);
}

#endif
