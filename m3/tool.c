/*
 * m3/tool.c - the m3 command: regions from the command line. It has no CUDA: all goes by way of the
 * broker.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "m3/tool.h"
#include "util/env.h"
#include "util/util.h"
#include "util/process/output.h"

struct command {
	const char *name, *arguments, *help;
	int (*run)(m3_client *client, int argc, char **argv); /* NULL: tool_show.c does it */
	int least, most;				      /* arguments */
};

int ck_m3_tool_failed(const char *what, int status)
{
	fprintf(stderr, "m3: %s: %s\n", what, m3_strerror(status));
	return 1;
}

/* A device's number, "striped", or "striped:" and on how many. 0; or 2, printed. */
static int device_of(const char *text, m3_alloc_req *req)
{
	const char *digits = text;
	uint64_t number = 1;
	int status;

	if (strncmp(text, "striped", 7) == 0) {
		req->policy = M3_STRIPED;
		if (text[7] == '\0')
			return 0;
		digits = text[7] == ':' ? text + 8 : text;
	}
	status = ck_m3_tool_number(digits, &number);
	if (status == 0 && req->policy == M3_STRIPED)
		req->stripes = (unsigned int)ck_min(number, (uint64_t)UINT_MAX);
	else if (status == 0)
		req->device = (int)ck_min(number, (uint64_t)INT_MAX);
	return status;
}

/* ID SIZE [DEVICE] [MODE]: it stays until m3 rm. */
static int run_alloc(m3_client *c, int argc, char **argv)
{
	m3_alloc_req req = {.mem_id = argv[0],
			    .device = M3_ANY_DEVICE,
			    .flags = M3_DETACHED | M3_SEALABLE | M3_NO_MAP};
	m3_region *r;
	int status;

	if (ck_m3_tool_number(argv[1], &req.bytes) || (argc > 2 && device_of(argv[2], &req)) ||
	    (argc > 3 && ck_m3_tool_mode(argv[3], &req.mode)))
		return 2;
	status = m3_alloc(c, &req, &r);
	if (status != M3_OK)
		return ck_m3_tool_failed(argv[0], status);
	printf("%s: %llu bytes, region %#llx\n", argv[0], (unsigned long long)m3_region_size(r),
	       (unsigned long long)m3_region_id(r));
	m3_release(r);
	return 0;
}

int ck_m3_tool_open(m3_client *c, const char *name, int access, m3_region **r)
{
	int status = strncmp(name, "0x", 2) == 0
			     ? m3_open_id(c, strtoull(name, NULL, 16), access, r)
			     : m3_open(c, name, access, r);

	return status ? ck_m3_tool_failed(name, status) : 0;
}

static int run_rm(m3_client *c, int argc, char **argv)
{
	int status = m3_unlink(c, argv[0]);

	(void)argc;
	return status ? ck_m3_tool_failed(argv[0], status) : 0;
}

/* Are there @size bytes at @offset of the region @name? 0; or 1, printed. */
static int check_range(const char *name, m3_region *r, uint64_t offset, uint64_t size)
{
	uint64_t end = m3_region_size(r);

	if (offset <= end && size <= end - offset)
		return 0;
	fprintf(stderr, "m3: %s: it has %llu bytes, and ends before %llu bytes from %llu on\n",
		name, (unsigned long long)end, (unsigned long long)size,
		(unsigned long long)offset);
	return 1;
}

/* ID OFFSET LENGTH: the bytes to stdout. */
static int run_read(m3_client *c, int argc, char **argv)
{
	uint64_t offset, size;
	m3_region *r;
	int status = M3_OK;
	char bytes[65536];

	(void)argc;
	if (ck_m3_tool_number(argv[1], &offset) || ck_m3_tool_number(argv[2], &size))
		return 2;
	if (ck_m3_tool_open(c, argv[0], M3_READ, &r))
		return 1;
	if (check_range(argv[0], r, offset, size)) {
		m3_release(r);
		return 1;
	}
	for (uint64_t n; size > 0 && status == M3_OK; size -= n, offset += n) {
		n = ck_min(size, (uint64_t)sizeof(bytes));
		status = m3_read(r, offset, bytes, n);
		if (status == M3_OK && fwrite(bytes, 1, n, stdout) != n)
			status = M3_EIO;
	}
	if (status == M3_OK && isatty(STDOUT_FILENO))
		putchar('\n'); /* the shell's prompt is not part of the region */
	m3_release(r);
	return status ? ck_m3_tool_failed(argv[0], status) : 0;
}

/* ID OFFSET TEXT, or stdin for the text "-". */
static int run_write(m3_client *c, int argc, char **argv)
{
	uint64_t offset;
	m3_region *r;
	int status = M3_OK;
	bool input = strcmp(argv[2], "-") == 0;
	char bytes[65536];
	size_t n;
	int wrong;

	(void)argc;
	if (ck_m3_tool_number(argv[1], &offset))
		return 2;
	if (ck_m3_tool_open(c, argv[0], M3_READWRITE, &r))
		return 1;
	n = input ? 0 : strlen(argv[2]);
	wrong = check_range(argv[0], r, offset, n);
	if (!wrong && n > 0)
		status = m3_write(r, offset, argv[2], n);
	while (!wrong && input && status == M3_OK &&
	       (n = fread(bytes, 1, sizeof(bytes), stdin)) > 0) {
		wrong = check_range(argv[0], r, offset, n);
		status = wrong ? M3_OK : m3_write(r, offset, bytes, n);
		offset += n;
	}
	m3_release(r);
	return status ? ck_m3_tool_failed(argv[0], status) : wrong;
}

/* ID OFFSET LENGTH BYTE */
static int run_memset(m3_client *c, int argc, char **argv)
{
	uint64_t offset, size;
	unsigned char value;
	m3_region *r;
	int status = M3_OK, wrong;

	(void)argc;
	if (ck_m3_tool_number(argv[1], &offset) || ck_m3_tool_number(argv[2], &size) ||
	    ck_m3_tool_byte(argv[3], &value))
		return 2;
	if (ck_m3_tool_open(c, argv[0], M3_READWRITE, &r))
		return 1;
	wrong = check_range(argv[0], r, offset, size);
	if (!wrong && size > 0)
		status = m3_fill(r, offset, value, size);
	m3_release(r);
	return status ? ck_m3_tool_failed(argv[0], status) : wrong;
}

static int run_chmod(m3_client *c, int argc, char **argv)
{
	unsigned int mode;
	m3_region *r;
	int status;

	(void)argc;
	if (ck_m3_tool_mode(argv[1], &mode))
		return 2;
	if (ck_m3_tool_open(c, argv[0], M3_READ, &r))
		return 1;
	status = m3_chmod(r, mode);
	m3_release(r);
	return status ? ck_m3_tool_failed(argv[0], status) : 0;
}

static int run_grant(m3_client *c, int argc, char **argv)
{
	int access, status;
	m3_region *r;

	(void)argc;
	if (ck_m3_tool_principal(argv[1]) || ck_m3_tool_access(argv[2], &access))
		return 2;
	if (ck_m3_tool_open(c, argv[0], M3_READ, &r))
		return 1;
	status = access ? m3_grant(r, argv[1], access) : m3_revoke(r, argv[1]);
	m3_release(r);
	return status ? ck_m3_tool_failed(argv[0], status) : 0;
}

static int run_seal(m3_client *c, int argc, char **argv)
{
	m3_region *r;
	int status;

	(void)argc;
	if (ck_m3_tool_open(c, argv[0], M3_READWRITE, &r))
		return 1;
	status = m3_seal(r);
	m3_release(r);
	return status ? ck_m3_tool_failed(argv[0], status) : 0;
}

static int run_echo(m3_client *c, int argc, char **argv)
{
	char back[4097] = "";
	int status = m3_echo(c, argv[0], strlen(argv[0]), back);

	(void)argc;
	if (status)
		return ck_m3_tool_failed("echo", status);
	puts(back);
	return 0;
}

static int run_halt(m3_client *c, int argc, char **argv)
{
	int status = m3_halt(c);

	(void)argc;
	(void)argv;
	return status ? ck_m3_tool_failed("halt", status) : 0;
}

static int run_shell(m3_client *c, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return ck_m3_tool_shell(c);
}

static const struct command commands[] = {
	{"alloc", "NAME SIZE [DEVICE [MODE]]", "create a region, or open it", run_alloc, 2, 4},
	{"ls", "[--json] [PREFIX]", "list regions", NULL, 0, 1},
	{"stat", "[--json] NAME", "print the properties of a region", NULL, 1, 1},
	{"rm", "NAME", "remove its name; its last user frees it", run_rm, 1, 1},
	{"read", "NAME OFFSET LENGTH", "write its bytes to stdout", run_read, 3, 3},
	{"write", "NAME OFFSET TEXT", "write TEXT into it; -: stdin", run_write, 3, 3},
	{"memset", "NAME OFFSET LENGTH BYTE", "fill a part of it", run_memset, 4, 4},
	{"chmod", "NAME MODE", "set who may open it", run_chmod, 2, 2},
	{"grant", "NAME PRINCIPAL r|rw|none", "change the rights of a user", run_grant, 3, 3},
	{"seal", "NAME", "make it read-only for good", run_seal, 1, 1},
	{"quota", "[--json] [PRINCIPAL [BYTES [REGIONS]]]", "print or set the limits of a user",
	 NULL, 0, 3},
	{"topo", "[--json]", "print devices and their peer access", NULL, 0, 0},
	{"echo", "TEXT", "test whether the broker replies", run_echo, 1, 1},
	{"halt", "", "end the broker", run_halt, 0, 0},
	{"shell", "", "read commands of the first M3's shell", run_shell, 0, 0},
};

static int print_help(void)
{
	puts("Usage: m3 [--socket PATH] COMMAND [ARGUMENT]...\n       m3 --help | --version\n");
	for (size_t i = 0; i < CK_ARRAY_SIZE(commands); i++)
		printf("  %-7s%-41s%s\n", commands[i].name, commands[i].arguments,
		       commands[i].help);
	return 0;
}

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(commands); i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

/* Take the option --json out of the arguments, of which *@argc are left. 0; or 2, printed. */
static int parse_arguments(const struct command *k, int *argc, char **argv, bool *json)
{
	int left = 0;

	for (int i = 0; i < *argc; i++) {
		if (!k->run && strcmp(argv[i], "--json") == 0) {
			*json = true;
		} else if (strncmp(argv[i], "--", 2) == 0 && !strstr(k->arguments, "TEXT")) {
			fprintf(stderr, "m3 %s: there is no option %s\n", k->name, argv[i]);
			return 2;
		} else {
			argv[left++] = argv[i];
		}
	}
	*argc = left;
	if (left >= k->least && left <= k->most)
		return 0;
	fprintf(stderr, "Usage: m3 %s %s\n", k->name, k->arguments);
	return 2;
}

static int no_broker(const char *path, int status)
{
	const char *where = path ? path : ck_env_string("CRICKET_M3");

	where = where && *where ? where : "the usual sockets";
	if (status != M3_EIO)
		return ck_m3_tool_failed(where, status);
	fprintf(stderr, "m3: %s: no broker answers: is cricket-rpc-server or m3-server running?\n",
		where);
	return 1;
}

static int run(const char *path, const struct command *k, int argc, char **argv)
{
	m3_opts opts = {.device = M3_ANY_DEVICE, .no_driver = 1, .path = path};
	m3_client *client;
	bool json = false;
	int status = parse_arguments(k, &argc, argv, &json);

	if (status)
		return status;
	status = m3_connect(&opts, &client);
	if (status != M3_OK)
		return no_broker(path, status);
	status = k->run ? k->run(client, argc, argv)
			: ck_m3_tool_show(client, k->name, json, argc, argv);
	m3_disconnect(client);
	return status;
}

static int run_words(int argc, char **argv)
{
	const char *path = NULL, *word = argc > 1 ? argv[1] : "";
	const struct command *k;
	int at = 1;

	if (strcmp(word, "--help") == 0)
		return print_help();
	if (strcmp(word, "--version") == 0) {
		puts("m3 " CK_RELEASE);
		return 0;
	}
	if (argc > 2 && strcmp(word, "--socket") == 0) {
		path = argv[2];
		at = 3;
	}
	if (path && !*path) {
		fputs("m3: --socket names no socket: it is empty\n", stderr);
		return 2;
	}
	k = at < argc ? find(argv[at]) : NULL;
	if (k)
		return run(path, k, argc - at - 1, argv + at + 1);
	if (at < argc)
		fprintf(stderr, "m3: there is no command %s; `m3 --help` lists all\n", argv[at]);
	else
		fputs("m3: a command is missing; `m3 --help` lists all\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	int status;

	ck_output_begin();
	status = run_words(argc, argv);
	return ck_output_end("m3") || status != 0 ? status : 1;
}
