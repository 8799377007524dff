/*
 * tests/unit/test_rpc_interop.c - our records against libtirpc's own client and server.
 *
 * What these agree on is plain ONC RPC, and a client in any language can be written from cricket.x.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "rpc/record.h"

#define PROC_NULL 0
#define PROC_ECHO 1
#define PROC_LENGTH 2 /* one-way: remembers how much it was sent; PROC_TOLD asks for it */
#define PROC_TOLD 3
#define PROC_MISSING 4

#define XDR_VOID ((xdrproc_t)(void (*)(void))xdr_void)
#define XDR_DATA ((xdrproc_t)(void (*)(void))xdr_data)
#define XDR_UINT ((xdrproc_t)(void (*)(void))xdr_u_int)
#define ECHO_MAX 900000 /* libtirpc's server takes no argument much longer than that */

struct data {
	char *bytes;
	u_int size;
};

static bool_t xdr_data(XDR *xdrs, struct data *data)
{
	return xdr_bytes(xdrs, &data->bytes, &data->size, ECHO_MAX);
}

static struct data make_data(u_int size)
{
	struct data data = {.bytes = malloc(size + 1), .size = size};
	u_int i;

	for (i = 0; i < size; i++)
		data.bytes[i] = (char)(i * 11 + (i >> 9));
	return data;
}

/* Start @serve on @listener in a child. */
static pid_t start_server(int listener, void (*serve)(int listener))
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(60);
		serve(listener);
		_exit(0);
	}
	return pid;
}

static void stop_server(pid_t pid, int listener)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(listener);
}

static void address_of(int listener, struct sockaddr_in *addr, char *text, size_t size)
{
	socklen_t length = sizeof(*addr);

	assert_int_equal(getsockname(listener, (struct sockaddr *)addr, &length), 0);
	snprintf(text, size, "127.0.0.1:%d", ntohs(addr->sin_port));
}

/* libtirpc's server. */

static void dispatch(struct svc_req *request, SVCXPRT *xprt)
{
	static u_int told;
	struct data data = {0};

	switch (request->rq_proc) {
	case PROC_NULL:
		svc_sendreply(xprt, XDR_VOID, NULL);
		return;
	case PROC_ECHO:
	case PROC_LENGTH:
		if (!svc_getargs(xprt, XDR_DATA, (void *)&data)) {
			svcerr_decode(xprt);
			return;
		}
		told = data.size;
		if (request->rq_proc == PROC_ECHO)
			svc_sendreply(xprt, XDR_DATA, (void *)&data);
		svc_freeargs(xprt, XDR_DATA, (void *)&data);
		return;
	case PROC_TOLD:
		svc_sendreply(xprt, XDR_UINT, (void *)&told);
		return;
	default:
		svcerr_noproc(xprt);
	}
}

static void serve_stock(int listener)
{
	/* A listening transport of its own on a socket that we chose: no rpcbind is asked. */
	SVCXPRT *xprt = svc_vc_create(listener, 0, 0);

	if (xprt && svc_reg(xprt, CK_PROGRAM, CK_VERSION, dispatch, NULL))
		svc_run();
}

struct client {
	struct ck_chan *chan;
	struct ck_reader *reader;
	unsigned char *buf;
	uint32_t xid;
};

static void client_open(struct client *client, const char *address)
{
	assert_int_equal(ck_chan_dial(address, 5000, &client->chan), 0);
	assert_int_equal(ck_reader_create(client->chan, &client->reader), 0);
	client->buf = malloc(CK_RECORD_MAX);
	client->xid = 0xfffffff0;
}

static void client_close(struct client *client)
{
	ck_reader_destroy(client->reader);
	ck_chan_close(client->chan);
	free(client->buf);
}

static void send_bytes(struct client *client, long size)
{
	struct iovec iov = {client->buf, (size_t)size};

	assert_true(size > 0);
	assert_int_equal(ck_chan_writev(client->chan, &iov, 1), 0);
}

static void send_call(struct client *client, uint32_t proc, xdrproc_t xdr, void *args)
{
	send_bytes(client,
		   ck_call_encode(client->buf, CK_RECORD_MAX, ++client->xid, proc, xdr, args, 0));
}

/* Wait for the answer to the last call; ck_reply_decode's answer. */
static int take_reply(struct client *client, xdrproc_t xdr, void *res, uint32_t version[2])
{
	struct ck_record record;
	uint32_t xid = 0;
	size_t results;
	XDR xdrs;
	int ret;

	assert_int_equal(ck_reader_next(client->reader, &record), 0);
	assert_int_equal(record.body_size, record.total);
	ret = ck_reply_decode(record.body, record.body_size, &xid, &results, &version[0],
			      &version[1]);
	assert_int_equal(xid, client->xid);
	if (ret < 0)
		return ret;
	xdrmem_create(&xdrs, (char *)record.body + results, (u_int)(record.total - results),
		      XDR_DECODE);
	assert_true(xdr(&xdrs, res));
	assert_int_equal(xdr_getpos(&xdrs), record.total - results);
	return 0;
}

static int call(struct client *client, uint32_t proc, xdrproc_t xdr_in, void *args,
		xdrproc_t xdr_out, void *res)
{
	uint32_t version[2];

	send_call(client, proc, xdr_in, args);
	return take_reply(client, xdr_out, res, version);
}

static int start_stock_server(struct client *client, pid_t *pid)
{
	int listener = ck_chan_listen("127.0.0.1:0");
	struct sockaddr_in addr;
	char text[32];

	assert_true(listener >= 0);
	address_of(listener, &addr, text, sizeof(text));
	*pid = start_server(listener, serve_stock);
	client_open(client, text);
	return listener;
}

static void a_stock_server_answers_our_calls(void **state)
{
	static const u_int sizes[] = {0, 1, 5, 4000, 8956, 8960, 9000, 65536, 300000, ECHO_MAX};
	struct client client;
	pid_t pid;
	int listener = start_stock_server(&client, &pid);
	size_t i;

	(void)state;
	assert_int_equal(call(&client, PROC_NULL, XDR_VOID, NULL, XDR_VOID, NULL), 0);
	/* the longer ones come back in several fragments */
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct data data = make_data(sizes[i]), back = {0};

		assert_int_equal(call(&client, PROC_ECHO, XDR_DATA, &data, XDR_DATA, &back), 0);
		assert_int_equal(back.size, data.size);
		if (data.size)
			assert_memory_equal(back.bytes, data.bytes, data.size);
		free(data.bytes);
		free(back.bytes);
	}
	assert_int_equal(call(&client, PROC_MISSING, XDR_VOID, NULL, XDR_VOID, NULL), -EOPNOTSUPP);
	assert_int_equal(call(&client, PROC_ECHO, XDR_VOID, NULL, XDR_VOID, NULL), -EBADMSG);
	client_close(&client);
	stop_server(pid, listener);
}

static void a_stock_server_takes_our_one_way_calls_in_order(void **state)
{
	struct client client;
	pid_t pid;
	int listener = start_stock_server(&client, &pid);
	u_int told = 0, i;

	(void)state;
	for (i = 1; i <= 1000; i++) {
		struct data data = make_data(i);

		send_call(&client, PROC_LENGTH, XDR_DATA, &data);
		free(data.bytes);
	}
	assert_int_equal(call(&client, PROC_TOLD, XDR_VOID, NULL, XDR_UINT, &told), 0);
	assert_int_equal(told, 1000);
	client_close(&client);
	stop_server(pid, listener);
}

static void a_stock_servers_mismatches_are_understood(void **state)
{
	struct client client;
	uint32_t version[2] = {42, 42};
	pid_t pid;
	int listener = start_stock_server(&client, &pid);
	long n;

	(void)state;
	n = ck_call_encode(client.buf, CK_RECORD_MAX, ++client.xid, PROC_NULL, XDR_VOID, NULL, 0);
	client.buf[23] = 77; /* version */
	send_bytes(&client, n);
	assert_int_equal(take_reply(&client, XDR_VOID, NULL, version), -EPROTONOSUPPORT);
	assert_int_equal(version[0], CK_VERSION);
	assert_int_equal(version[1], CK_VERSION);
	n = ck_call_encode(client.buf, CK_RECORD_MAX, ++client.xid, PROC_NULL, XDR_VOID, NULL, 0);
	client.buf[19] = 77; /* program */
	send_bytes(&client, n);
	assert_int_equal(take_reply(&client, XDR_VOID, NULL, version), -EOPNOTSUPP);
	client_close(&client);
	stop_server(pid, listener);
}

/* Our server. */

static long answer(const struct ck_call_header *header, const struct ck_record *record,
		   unsigned char *buf, u_int *told)
{
	struct data data = {0};
	long n;
	XDR xdrs;

	if (header->program != CK_PROGRAM)
		return ck_refusal_encode(buf, CK_RECORD_MAX, header->xid, PROG_UNAVAIL);
	if (header->version != CK_VERSION)
		return ck_refusal_encode(buf, CK_RECORD_MAX, header->xid, PROG_MISMATCH);
	if (header->proc == PROC_NULL)
		return ck_reply_encode(buf, CK_RECORD_MAX, header->xid, XDR_VOID, NULL, 0);
	if (header->proc == PROC_TOLD)
		return ck_reply_encode(buf, CK_RECORD_MAX, header->xid, XDR_UINT, told, 0);
	if (header->proc != PROC_ECHO && header->proc != PROC_LENGTH)
		return ck_refusal_encode(buf, CK_RECORD_MAX, header->xid, PROC_UNAVAIL);
	xdrmem_create(&xdrs, (char *)record->body + header->size,
		      (u_int)(record->body_size - header->size), XDR_DECODE);
	if (!xdr_data(&xdrs, &data))
		return ck_refusal_encode(buf, CK_RECORD_MAX, header->xid, GARBAGE_ARGS);
	*told = data.size;
	n = header->proc == PROC_LENGTH
		    ? 0
		    : ck_reply_encode(buf, CK_RECORD_MAX, header->xid, XDR_DATA, &data, 0);
	free(data.bytes);
	return n;
}

static void serve_chan(struct ck_chan *chan)
{
	unsigned char *buf = malloc(CK_RECORD_MAX);
	struct ck_reader *reader;
	struct ck_record record;
	u_int told = 0;

	if (!buf || ck_reader_create(chan, &reader) < 0)
		_exit(1);
	while (ck_reader_next(reader, &record) == 0) {
		struct ck_call_header header;
		struct iovec iov = {buf, 0};
		long n;

		if (ck_call_decode(record.body, record.body_size, &header) < 0)
			break;
		n = answer(&header, &record, buf, &told);
		iov.iov_len = (size_t)n;
		if (n < 0 || ck_chan_writev(chan, &iov, 1) < 0)
			break;
	}
	ck_reader_destroy(reader);
	ck_chan_close(chan);
	free(buf);
}

static void serve_ours(int listener)
{
	struct pollfd pfd = {.fd = listener, .events = POLLIN};

	while (poll(&pfd, 1, -1) == 1) {
		int fd = accept(listener, NULL, NULL);
		struct ck_chan *chan;

		if (fd < 0 || ck_chan_adopt(fd, &chan) < 0)
			_exit(1);
		serve_chan(chan);
	}
}

static const struct timeval patience = {20, 0}, none = {0, 0};

static enum clnt_stat null_call(CLIENT *stock, rpcproc_t proc)
{
	return clnt_call(stock, proc, XDR_VOID, NULL, XDR_VOID, NULL, patience);
}

static void check_stock_client(CLIENT *stock)
{
	static const u_int sizes[] = {0, 1, 5, 8900, 8960, 9000, 65536, 300000, ECHO_MAX};
	u_int told = 0, i;

	assert_non_null(stock);
	assert_int_equal(null_call(stock, PROC_NULL), RPC_SUCCESS);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct data data = make_data(sizes[i]), back = {0};

		assert_int_equal(clnt_call(stock, PROC_ECHO, XDR_DATA, (void *)&data, XDR_DATA,
					   (void *)&back, patience),
				 RPC_SUCCESS);
		assert_int_equal(back.size, data.size);
		if (data.size)
			assert_memory_equal(back.bytes, data.bytes, data.size);
		free(data.bytes);
		free(back.bytes);
	}
	assert_int_equal(null_call(stock, PROC_MISSING), RPC_PROCUNAVAIL);
	assert_int_equal(null_call(stock, PROC_ECHO), RPC_CANTDECODEARGS);
	for (i = 1; i <= 1000; i++) { /* batched: no reply is waited for, nor sent */
		struct data data = make_data(i);

		assert_int_equal(
			clnt_call(stock, PROC_LENGTH, XDR_DATA, (void *)&data, NULL, NULL, none),
			RPC_SUCCESS);
		free(data.bytes);
	}
	assert_int_equal(
		clnt_call(stock, PROC_TOLD, XDR_VOID, NULL, XDR_UINT, (void *)&told, patience),
		RPC_SUCCESS);
	assert_int_equal(told, 1000);
}

/* libtirpc's handle on a socket that we connect, so that it asks no rpcbind. */
static CLIENT *stock_client(struct sockaddr_in *addr, rpcprog_t program, rpcvers_t version)
{
	struct netbuf to = {.maxlen = sizeof(*addr), .len = sizeof(*addr), .buf = addr};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	CLIENT *stock;

	assert_int_equal(connect(fd, (struct sockaddr *)addr, sizeof(*addr)), 0);
	stock = clnt_vc_create(fd, &to, program, version, 0, 0);
	assert_non_null(stock);
	clnt_control(stock, CLSET_FD_CLOSE, NULL);
	return stock;
}

static void a_stock_client_is_answered_by_our_records(void **state)
{
	int listener = ck_chan_listen("127.0.0.1:0");
	struct sockaddr_in addr;
	struct rpc_err error;
	char text[32];
	CLIENT *stock;
	pid_t pid;

	(void)state;
	address_of(listener, &addr, text, sizeof(text));
	pid = start_server(listener, serve_ours);
	stock = stock_client(&addr, CK_PROGRAM, CK_VERSION);
	check_stock_client(stock);
	auth_destroy(stock->cl_auth);
	stock->cl_auth = authunix_create_default(); /* a credential to skip */
	assert_non_null(stock->cl_auth);
	assert_int_equal(null_call(stock, PROC_NULL), RPC_SUCCESS);
	auth_destroy(stock->cl_auth);
	clnt_destroy(stock);
	stock = stock_client(&addr, CK_PROGRAM, CK_VERSION + 5);
	assert_int_equal(null_call(stock, PROC_NULL), RPC_PROGVERSMISMATCH);
	clnt_geterr(stock, &error);
	assert_int_equal(error.re_vers.low, CK_VERSION);
	assert_int_equal(error.re_vers.high, CK_VERSION);
	auth_destroy(stock->cl_auth);
	clnt_destroy(stock);
	stock = stock_client(&addr, CK_PROGRAM + 1, CK_VERSION);
	assert_int_equal(null_call(stock, PROC_NULL), RPC_PROGUNAVAIL);
	auth_destroy(stock->cl_auth);
	clnt_destroy(stock);
	stop_server(pid, listener);
}

static void a_stock_client_is_answered_over_a_unix_socket(void **state)
{
	char dir[] = "/tmp/ck-test-XXXXXX", address[64];
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	CLIENT *stock;
	int listener, fd = RPC_ANYSOCK;
	pid_t pid;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/s", dir);
	snprintf(address, sizeof(address), "unix:%s/s", dir);
	listener = ck_chan_listen(address);
	assert_true(listener >= 0);
	pid = start_server(listener, serve_ours);
	stock = clntunix_create(&addr, CK_PROGRAM, CK_VERSION, &fd, 0, 0);
	check_stock_client(stock);
	auth_destroy(stock->cl_auth);
	clnt_destroy(stock);
	stop_server(pid, listener);
	unlink(addr.sun_path);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stock_server_answers_our_calls),
		cmocka_unit_test(a_stock_server_takes_our_one_way_calls_in_order),
		cmocka_unit_test(a_stock_servers_mismatches_are_understood),
		cmocka_unit_test(a_stock_client_is_answered_by_our_records),
		cmocka_unit_test(a_stock_client_is_answered_over_a_unix_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
