/*
 * docs/examples/rpc_client.c - a client of cricket-rpc-server from stock rpcgen output and libtirpc alone.
 *
 *   rpcgen cricket.x                       # a copy of rpc/cricket.x
 *   cc $(pkg-config --cflags libtirpc) rpc_client.c cricket_clnt.c cricket_xdr.c $(pkg-config --libs libtirpc)
 *   ./a.out HOST PORT
 *
 * It begins a session, allocates memory, uploads numbers, runs a kernel on them, downloads and compares them.
 * docs/protocol.md explains the steps.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cricket.h"

#define COUNT 1000
#define MESSAGE 65536 /* bytes: each message must fit, because a record must not be sent in fragments */

/* Ids that this client chooses. */
enum { CONTEXT = 1, MODULE, FUNCTION };

static const char ptx[] =
	".version 7.0\n.target sm_75\n.address_size 64\n"
	".visible .entry triple(.param .u64 data, .param .u32 n)\n{\n"
	".reg .u64 %a<3>;\n.reg .u32 %r<6>;\n.reg .pred %p<2>;\n"
	"ld.param.u64 %a0, [data];\nld.param.u32 %r0, [n];\n"
	"mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n"
	"mad.lo.u32 %r3, %r1, %r2, %r3;\nsetp.ge.u32 %p0, %r3, %r0;\n@%p0 bra done;\n"
	"mul.wide.u32 %a1, %r3, 4;\nadd.u64 %a1, %a0, %a1;\n"
	"ld.global.u32 %r4, [%a1];\nmul.lo.u32 %r4, %r4, 3;\nst.global.u32 [%a1], %r4;\n"
	"done:\nret;\n}\n";
/* BLAKE2b-256 of the text with its final NUL: a server names images by content. `b2sum -l 256` computes it. */
static const unsigned char ptx_hash[CK_HASH] = {
	0x3a, 0xdd, 0x13, 0xec, 0x13, 0xb2, 0x33, 0x0f,
	0xca, 0xb3, 0x1b, 0xa4, 0x33, 0x45, 0x4c, 0x67,
	0x33, 0x72, 0xf8, 0x12, 0x7a, 0x01, 0x03, 0xb2,
	0x30, 0xd2, 0x23, 0x02, 0x53, 0x9a, 0x93, 0x1d,
};

static void fail(const char *what, CLIENT *client)
{
	if (client)
		clnt_perror(client, what);
	else
		fprintf(stderr, "%s\n", what);
	exit(1);
}

/* What a call returned: none, or a CUresult other than 0, ends the program. */
static void check(const char *what, CLIENT *client, const void *res, int err)
{
	if (!res)
		fail(what, client);
	if (err) {
		fprintf(stderr, "%s: CUDA error %d\n", what, err);
		exit(1);
	}
}

static CLIENT *dial(const struct sockaddr_in *server)
{
	struct sockaddr_in address = *server;
	int fd = RPC_ANYSOCK;
	CLIENT *client = clnttcp_create(&address, CRICKET, CRICKET_V1, &fd, MESSAGE, MESSAGE);

	if (!client) {
		clnt_pcreateerror("connect");
		exit(1);
	}
	return client;
}

/* One more connection of the session, for commands or for calls. */
static CLIENT *join(const struct sockaddr_in *server, const ck_hello_res *session, ck_lane_kind lane)
{
	CLIENT *client = dial(server);
	ck_join_args args = { .lane = lane };
	ck_join_res *res;

	memcpy(args.session, session->session, CK_ID);
	memcpy(args.key, session->key, CK_ID);
	res = ck_join_1(&args, client);
	if (!res || res->status)
		fail("join", res ? NULL : client);
	return client;
}

/* Commands get no reply: RPC batching, with no time to wait and no result. */
static void command(CLIENT *client, rpcproc_t number, void *xdr, void *args)
{
	struct timeval none = { 0, 0 };
	enum clnt_stat stat = clnt_call(client, number, (xdrproc_t)xdr, args, (xdrproc_t)xdr_void, NULL, none);

	if (stat != RPC_SUCCESS && stat != RPC_TIMEDOUT) /* "timed out": sent, and nothing was waited for */
		fail("command", client);
}

/* The context and the kernel; returns the number of the last command. */
static unsigned long load_kernel(CLIENT *commands, CLIENT *calls)
{
	ck_primary_retain_args context = { .head = { 1, 0 }, .context = CONTEXT, .device = 0 };
	ck_image_args image = { .head = { 2, CONTEXT }, .size = sizeof(ptx),
				.data = { sizeof(ptx), (char *)ptx } };
	ck_module_build_args build = { .head = { 2, CONTEXT }, .module = MODULE };
	ck_function_args function = { .head = { 3, CONTEXT }, .function = FUNCTION, .module = MODULE,
				      .name = (char *)"triple" };
	ck_module_build_res *built;

	memcpy(image.hash, ptx_hash, CK_HASH);
	memcpy(build.hash, ptx_hash, CK_HASH);
	command(commands, PROC_ck_primary_retain, xdr_ck_primary_retain_args, &context);
	command(commands, PROC_ck_image, xdr_ck_image_args, &image);
	built = proc_ck_module_build_1(&build, calls); /* started when command 2 has been carried out */
	check("build", calls, built, built ? built->head.err : 0);
	command(commands, PROC_ck_function, xdr_ck_function_args, &function);
	return 3;
}

static void launch(CLIENT *commands, unsigned long seq, unsigned long address)
{
	struct {
		unsigned long data;
		unsigned int n;
	} params = { address, COUNT }; /* as the kernel declares them, each aligned to its size */
	ck_launch_args args = { .head = { seq, CONTEXT }, .function = FUNCTION, .gx = (COUNT + 127) / 128,
				.gy = 1, .gz = 1, .bx = 128, .by = 1, .bz = 1,
				.params = { 12, (char *)&params } };

	command(commands, PROC_ck_launch, xdr_ck_launch_args, &args);
}

static void run(CLIENT *commands, CLIENT *calls)
{
	unsigned long seq = load_kernel(commands, calls);
	cuMemAlloc_v2_args want = { .head = { seq, CONTEXT }, .bytesize = COUNT * sizeof(int) };
	cuMemAlloc_v2_res *got = proc_cumemalloc_v2_1(&want, calls);
	int numbers[COUNT], wrong = 0;
	ck_upload_args up = { .head = { ++seq, CONTEXT }, .data = { sizeof(numbers), (char *)numbers } };
	ck_download_args down = { .size = sizeof(numbers) };
	ck_download_res *back;

	check("allocate", calls, got, got ? got->head.err : 0);
	for (int i = 0; i < COUNT; i++)
		numbers[i] = i;
	up.dst = down.src = got->dptr;
	command(commands, PROC_ck_upload, xdr_ck_upload_args, &up);
	launch(commands, ++seq, got->dptr);
	down.head = (ck_head){ seq, CONTEXT }; /* behind the launch */
	back = proc_ck_download_1(&down, calls);
	check("download", calls, back, back ? (back->head.err ? back->head.err : back->moved) : 0);
	if (back->data.data_len != sizeof(numbers))
		fail("download: too short", NULL);
	memcpy(numbers, back->data.data_val, sizeof(numbers));
	for (int i = 0; i < COUNT; i++)
		wrong += numbers[i] != 3 * i;
	printf("%d numbers, %d wrong\n", COUNT, wrong);
	if (wrong)
		exit(1);
}

int main(int argc, char **argv)
{
	struct sockaddr_in server = { .sin_family = AF_INET };
	char token[1024] = "", none[] = "";
	ck_hello_args hello = { .protocol = CK_PROTOCOL, .release = (char *)"example",
				.application = (char *)"rpc_client", .host = none };
	CLIENT *first, *commands;
	ck_hello_res *res;

	if (argc != 3 || inet_pton(AF_INET, argv[1], &server.sin_addr) != 1) {
		fprintf(stderr, "usage: rpc_client ADDRESS PORT\n");
		return 2;
	}
	server.sin_port = htons((unsigned short)atoi(argv[2]));
	if (getenv("CRICKET_TOKEN"))
		snprintf(token, sizeof(token), "%s", getenv("CRICKET_TOKEN"));
	hello.token.token_val = token;
	hello.token.token_len = (unsigned int)strlen(token);
	hello.pid = (unsigned int)getpid();
	first = dial(&server);
	res = ck_hello_1(&hello, first);
	if (!res)
		fail("hello", first);
	if (res->status != CK_HELLO_OK)
		fail(res->message, NULL);
	printf("%s, %s\n", res->devices.devices_val[0].name, res->emulated ? "emulated" : "real");
	commands = join(&server, res, CK_LANE_COMMAND);
	run(commands, first); /* the connection of the hello goes on as one for calls */
	clnt_destroy(commands);
	clnt_destroy(first);
	return 0;
}
