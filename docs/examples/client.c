/*
 * docs/examples/client.c - a client of cricket-rpc-server made of stock parts: what rpcgen makes
 * of rpc/cricket.x, and libtirpc. It uploads numbers, runs a kernel on them and downloads them.
 *
 *     rpcgen cricket.x
 *     cc $(pkg-config --cflags libtirpc) client.c cricket_clnt.c cricket_xdr.c \
 *         $(pkg-config --libs libtirpc) -o client
 *     ./client 127.0.0.1 9909 add_one.ptx $(b2sum -l 256 add_one.ptx)
 *
 * docs/protocol.md explains the rules that it keeps.
 */
#include "cricket.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 1000
#define CONTEXT 1 /* The client chooses the numbers of the objects that it makes. */
#define MODULE 2
#define FUNCTION 3

static CLIENT *commands; /* one-way messages, in order */
static CLIENT *calls;    /* messages with a reply */
static u_quad_t sent;    /* number of the last one-way message */

static void fail(const char *what)
{
	fprintf(stderr, "client: %s\n", what);
	exit(1);
}

/* Report a call that brought no reply, or an error of CUDA. */
static void check(const void *reply, int err, const char *what)
{
	if (!reply)
		clnt_perror(calls, what);
	else if (err != 0)
		fprintf(stderr, "client: %s: CUDA error %d\n", what, err);
	if (!reply || err != 0)
		exit(1);
}

static CLIENT *dial(const char *host, const char *port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	int fd = RPC_ANYSOCK;
	CLIENT *client = NULL;

	if (inet_pton(AF_INET, host, &to.sin_addr) == 1)
		client = clnttcp_create(&to, CRICKET, CRICKET_V1, &fd, 0, 0);
	if (!client)
		fail("cannot connect");
	return client;
}

static CLIENT *join(const char *host, const char *port, const ck_hello_res *hello, ck_lane_kind lane)
{
	CLIENT *client = dial(host, port);
	ck_join_args args = { .lane = lane };
	ck_join_res *res;

	memcpy(args.session, hello->session, sizeof(args.session));
	memcpy(args.key, hello->key, sizeof(args.key));
	res = ck_join_1(&args, client);
	if (!res || res->status != 0)
		fail("cannot join the session");
	return client;
}

/* The connection that this returns holds the session: closing it ends the session. */
static CLIENT *hello(const char *host, const char *port)
{
	CLIENT *client = dial(host, port);
	ck_hello_args args = {
		.protocol = CK_PROTOCOL,
		.release = "example",
		.application = "client",
		.host = "example",
		.pid = (u_int)getpid(),
	};
	ck_hello_res *res = ck_hello_1(&args, client);

	if (!res)
		fail("no reply to hello");
	if (res->status != CK_HELLO_OK)
		fail(res->message);
	printf("server %s, device %s\n", res->release, res->devices.devices_val[0].name);
	commands = join(host, port, res, CK_LANE_COMMAND);
	calls = join(host, port, res, CK_LANE_CALL);
	return client;
}

/* The head of the next one-way message. */
static ck_head next(void)
{
	return (ck_head){ .seq = ++sent, .ctx = CONTEXT };
}

/* The head of a call: it waits for all one-way messages so far. */
static ck_head after(void)
{
	return (ck_head){ .seq = sent, .ctx = CONTEXT };
}

/*
 * A one-way message: a time-out of zero makes libtirpc send it and return RPC_TIMEDOUT. The
 * procedure for results must not be NULL, else libtirpc keeps the record back in its buffer.
 */
static void send_one_way(rpcproc_t number, xdrproc_t xdr, void *args)
{
	struct timeval now = { 0, 0 };
	enum clnt_stat stat = clnt_call(commands, number, xdr, args, (xdrproc_t)xdr_void, NULL, now);

	if (stat != RPC_TIMEDOUT && stat != RPC_SUCCESS)
		fail("cannot send");
}

/* Read the PTX of @path, and the BLAKE2b hash, in hexadecimal, by which the server knows it. */
static void send_image(const char *path, const char *hex, ck_image_args *image)
{
	static char text[65536];
	FILE *f = fopen(path, "rb");
	size_t size = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (size == 0 || strlen(hex) != 2 * CK_HASH)
		fail("usage: client HOST PORT FILE.ptx HASH");
	fclose(f);
	for (int i = 0; i < CK_HASH; i++)
		sscanf(hex + 2 * i, "%2hhx", (unsigned char *)&image->hash[i]);
	image->size = size;
	image->data.data_val = text;
	image->data.data_len = (u_int)size;
	image->head = next();
	send_one_way(PROC_ck_image, (xdrproc_t)xdr_ck_image_args, image);
}

static void load(const char *path, const char *hex)
{
	ck_image_args image = { 0 };
	ck_module_load_args module = { .module = MODULE };
	ck_function_args function = { .function = FUNCTION, .module = MODULE, .name = "add_one" };

	send_image(path, hex, &image);
	memcpy(module.hash, image.hash, sizeof(module.hash));
	module.head = next();
	send_one_way(PROC_ck_module_load, (xdrproc_t)xdr_ck_module_load_args, &module);
	function.head = next();
	send_one_way(PROC_ck_function, (xdrproc_t)xdr_ck_function_args, &function);
}

/* Parameters of a kernel travel as their bytes, laid out as the kernel declares them. */
static void launch(u_quad_t address)
{
	struct {
		uint64_t data;
		uint32_t n;
	} params = { address, COUNT };
	ck_launch_args args = {
		.function = FUNCTION,
		.gx = (COUNT + 127) / 128, .gy = 1, .gz = 1,
		.bx = 128, .by = 1, .bz = 1,
		.params = { .params_len = 12, .params_val = (char *)&params },
	};

	args.head = next();
	send_one_way(PROC_ck_launch, (xdrproc_t)xdr_ck_launch_args, &args);
}

int main(int argc, char **argv)
{
	ck_primary_retain_args retain = { .context = CONTEXT, .device = 0 };
	cuMemAlloc_v2_args alloc = { .bytesize = COUNT * sizeof(int) };
	ck_upload_args upload = { 0 };
	ck_download_args download = { .size = COUNT * sizeof(int) };
	cuMemAlloc_v2_res *allocated;
	ck_download_res *res;
	int numbers[COUNT];
	CLIENT *session;

	if (argc < 5)
		fail("usage: client HOST PORT FILE.ptx HASH");
	session = hello(argv[1], argv[2]);
	retain.head = next();
	send_one_way(PROC_ck_primary_retain, (xdrproc_t)xdr_ck_primary_retain_args, &retain);

	alloc.head = after();
	allocated = proc_cumemalloc_v2_1(&alloc, calls);
	check(allocated, allocated ? allocated->head.err : 0, "cuMemAlloc");

	for (int i = 0; i < COUNT; i++)
		numbers[i] = 3 * i;
	upload.head = next();
	upload.dst = allocated->dptr;
	upload.data.data_val = (char *)numbers;
	upload.data.data_len = sizeof(numbers);
	send_one_way(PROC_ck_upload, (xdrproc_t)xdr_ck_upload_args, &upload);

	load(argv[3], argv[4]);
	launch(allocated->dptr);

	download.head = after();
	download.src = allocated->dptr;
	res = proc_ck_download_1(&download, calls);
	check(res, res ? res->head.err : 0, "download");
	check(res, res->moved, "moving the data");
	if (res->data.data_len != sizeof(numbers))
		fail("the data are not complete");
	for (int i = 0; i < COUNT; i++) {
		int n;

		memcpy(&n, res->data.data_val + i * sizeof(n), sizeof(n));
		if (n != 3 * i + 1)
			fail("the data are wrong");
	}
	printf("%d numbers are right\n", COUNT);
	clnt_destroy(calls);
	clnt_destroy(commands);
	clnt_destroy(session);
	return 0;
}
