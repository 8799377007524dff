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

#include "m3/tool.h"
#include "util/env.h"
#include "util/util.h"

struct command {
	const char *name, *arguments, *help;
	int (*run)(m3_client *client, int argc, char **argv);
	int least, most; /* arguments */
};

/* Say on stderr what failed and why; 1, the exit status. */
static int failed(const char *what, int status)
{
	fprintf(stderr, "m3: %s: %s\n", what, m3_strerror(status));
	return 1;
}

/* "2G", "512m", "4096": bytes. -EINVAL. */
static int read_size(const char *text, uint64_t *bytes)
{
	return ck_env_number(text, bytes);
}

static int wrong(const char *text)
{
	fprintf(stderr, "m3: not a number: %s\n", text);
	return 2;
}

static const char *state_name(uint32_t state)
{
	static const char *const names[] = {"creating", "live",	    "sealed",
					    "unlinked", "draining", "freed"};

	return state < CK_ARRAY_SIZE(names) ? names[state] : "?";
}

/* A device's number, "striped", or "striped:" and on how many. */
static bool device_of(const char *text, m3_alloc_req *req)
{
	uint64_t number = 0;

	if (strncmp(text, "striped", 7) == 0) {
		req->policy = M3_STRIPED;
		if (text[7] == '\0')
			return true;
		if (text[7] != ':' || ck_env_number(text + 8, &number) < 0 || !number)
			return false;
		req->stripes = (unsigned int)ck_min(number, (uint64_t)UINT_MAX);
		return true;
	}
	if (ck_env_number(text, &number) < 0)
		return false;
	req->device = (int)ck_min(number, (uint64_t)INT_MAX);
	return true;
}

/* ID SIZE [DEVICE] [MODE]: it stays until m3 rm. */
static int run_alloc(m3_client *c, int argc, char **argv)
{
	m3_alloc_req req = {.mem_id = argv[0],
			    .device = M3_ANY_DEVICE,
			    .flags = M3_DETACHED | M3_SEALABLE | M3_NO_MAP};
	m3_region *r;
	int status;

	if (read_size(argv[1], &req.bytes) < 0)
		return wrong(argv[1]);
	if (argc > 2 && !device_of(argv[2], &req))
		return wrong(argv[2]);
	if (argc > 3)
		req.mode = (unsigned int)strtoul(argv[3], NULL, 8);
	status = m3_alloc(c, &req, &r);
	if (status != M3_OK)
		return failed(argv[0], status);
	printf("%s: %llu bytes, region %#llx\n", argv[0], (unsigned long long)m3_region_size(r),
	       (unsigned long long)m3_region_id(r));
	m3_release(r);
	return 0;
}

static int print_line(const m3_info *i, void *data)
{
	(void)data;
	printf("%#018llx %12llu %3d %4u %4u %-8s %-10s %s\n", (unsigned long long)i->rid,
	       (unsigned long long)i->bytes, i->device, i->refs, i->maps, state_name(i->state),
	       i->owner, i->mem_id);
	return 0;
}

static int run_ls(m3_client *c, int argc, char **argv)
{
	int status;

	printf("%-18s %12s %3s %4s %4s %-8s %-10s %s\n", "region", "bytes", "dev", "refs", "maps",
	       "state", "owner", "name");
	status = m3_list(c, argc ? argv[0] : NULL, print_line, NULL);
	return status ? failed("ls", status) : 0;
}

/* Open the region of that name, or number with 0x in front. */
static int open_region(m3_client *c, const char *name, int access, m3_region **r)
{
	int status = strncmp(name, "0x", 2) == 0
			     ? m3_open_id(c, strtoull(name, NULL, 16), access, r)
			     : m3_open(c, name, access, r);

	return status ? failed(name, status) : 0;
}

static int run_stat(m3_client *c, int argc, char **argv)
{
	m3_region *r;
	m3_info i;
	int status;

	(void)argc;
	if (open_region(c, argv[0], M3_READ, &r))
		return 1;
	status = m3_stat(r, &i);
	m3_release(r);
	if (status)
		return failed(argv[0], status);
	printf("region  %#llx\nname    %s\nowner   %s\nbytes   %llu\ndevice  %d\nstripes %u\n"
	       "mode    %04o\nstate   %s\nrefs    %u\nmaps    %u\nage     %.1f s\n",
	       (unsigned long long)i.rid, i.mem_id, i.owner, (unsigned long long)i.bytes, i.device,
	       i.stripes, i.mode, state_name(i.state), i.refs - 1, i.maps, (double)i.age_ms / 1000);
	return 0;
}

static int run_rm(m3_client *c, int argc, char **argv)
{
	int status = m3_unlink(c, argv[0]);

	(void)argc;
	return status ? failed(argv[0], status) : 0;
}

/* ID OFFSET LENGTH: the bytes to stdout. */
static int run_read(m3_client *c, int argc, char **argv)
{
	uint64_t offset, size;
	m3_region *r;
	int status = M3_OK;
	char bytes[65536];

	(void)argc;
	if (read_size(argv[1], &offset) < 0 || read_size(argv[2], &size) < 0)
		return wrong("offset or length");
	if (open_region(c, argv[0], M3_READ, &r))
		return 1;
	for (uint64_t n; size > 0 && status == M3_OK; size -= n, offset += n) {
		n = ck_min(size, (uint64_t)sizeof(bytes));
		status = m3_read(r, offset, bytes, n);
		if (status == M3_OK && fwrite(bytes, 1, n, stdout) != n)
			status = M3_EIO;
	}
	m3_release(r);
	return status ? failed(argv[0], status) : 0;
}

/* ID OFFSET TEXT, or stdin for the text "-". */
static int run_write(m3_client *c, int argc, char **argv)
{
	uint64_t offset;
	m3_region *r;
	int status = M3_OK;
	char bytes[65536];
	size_t n;

	(void)argc;
	if (read_size(argv[1], &offset) < 0)
		return wrong(argv[1]);
	if (open_region(c, argv[0], M3_READWRITE, &r))
		return 1;
	if (strcmp(argv[2], "-") != 0)
		status = m3_write(r, offset, argv[2], strlen(argv[2]));
	else
		while (status == M3_OK && (n = fread(bytes, 1, sizeof(bytes), stdin)) > 0) {
			status = m3_write(r, offset, bytes, n);
			offset += n;
		}
	m3_release(r);
	return status ? failed(argv[0], status) : 0;
}

/* ID OFFSET LENGTH BYTE */
static int run_memset(m3_client *c, int argc, char **argv)
{
	uint64_t offset, size, value;
	m3_region *r;
	int status;

	(void)argc;
	if (read_size(argv[1], &offset) < 0 || read_size(argv[2], &size) < 0 ||
	    read_size(argv[3], &value) < 0)
		return wrong("offset, length or byte");
	if (open_region(c, argv[0], M3_READWRITE, &r))
		return 1;
	status = m3_fill(r, offset, (unsigned char)value, size);
	m3_release(r);
	return status ? failed(argv[0], status) : 0;
}

static int run_rights(m3_client *c, int argc, char **argv)
{
	m3_region *r;
	int status;

	if (open_region(c, argv[0], M3_READ, &r))
		return 1;
	if (argc == 2)
		status = m3_chmod(r, (unsigned int)strtoul(argv[1], NULL, 8));
	else if (strcmp(argv[2], "none") == 0)
		status = m3_revoke(r, argv[1]);
	else
		status = m3_grant(r, argv[1],
				  strcmp(argv[2], "rw") == 0  ? M3_READWRITE
				  : strcmp(argv[2], "r") == 0 ? M3_READ
							      : 0);
	m3_release(r);
	return status ? failed(argv[0], status) : 0;
}

static int run_seal(m3_client *c, int argc, char **argv)
{
	m3_region *r;
	int status;

	(void)argc;
	if (open_region(c, argv[0], M3_READWRITE, &r))
		return 1;
	status = m3_seal(r);
	m3_release(r);
	return status ? failed(argv[0], status) : 0;
}

/* [PRINCIPAL [BYTES [REGIONS]]] */
static int run_quota(m3_client *c, int argc, char **argv)
{
	uint64_t bytes = 0, regions = 0, used, used_regions;
	const char *who = argc ? argv[0] : NULL;
	int status = m3_quota_get(c, who, &bytes, &regions, &used, &used_regions);

	if (status == M3_OK && argc > 1) {
		if (read_size(argv[1], &bytes) < 0 ||
		    (argc > 2 && read_size(argv[2], &regions) < 0))
			return wrong("bytes or regions");
		status = m3_quota_set(c, who, bytes, regions);
	}
	if (status)
		return failed("quota", status);
	printf("bytes %llu of %llu, regions %llu of %llu (0: no limit)\n", (unsigned long long)used,
	       (unsigned long long)bytes, (unsigned long long)used_regions,
	       (unsigned long long)regions);
	return 0;
}

static int run_topo(m3_client *c, int argc, char **argv)
{
	m3_topo t;
	int status = m3_topology(c, &t);

	(void)argc;
	(void)argv;
	if (status)
		return failed("topo", status);
	for (int i = 0; i < t.count; i++) {
		const struct m3_topo_device *d = &t.devices[i];

		printf("device %d: %llu bytes, %llu used here; vmm %u fd %u fabric %u; peers", i,
		       (unsigned long long)d->bytes, (unsigned long long)d->used, d->vmm, d->fd,
		       d->fabric);
		for (int j = 0; j < t.count; j++) {
			if (d->peers >> j & 1)
				printf(" %d%s", j, d->links >> j & 1 ? "(link)" : "");
		}
		putchar('\n');
	}
	return 0;
}

static int run_echo(m3_client *c, int argc, char **argv)
{
	char back[4097] = "";
	int status = m3_echo(c, argv[0], strlen(argv[0]), back);

	(void)argc;
	if (status)
		return failed("echo", status);
	puts(back);
	return 0;
}

static int run_halt(m3_client *c, int argc, char **argv)
{
	int status = m3_halt(c);

	(void)argc;
	(void)argv;
	return status ? failed("halt", status) : 0;
}

static int run_shell(m3_client *c, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return ck_m3_tool_shell(c);
}

static const struct command commands[] = {
	{"alloc", "NAME SIZE [DEVICE [MODE]]", "create a region, or open it", run_alloc, 2, 4},
	{"ls", "[PREFIX]", "list regions", run_ls, 0, 1},
	{"stat", "NAME", "print the properties of a region", run_stat, 1, 1},
	{"rm", "NAME", "remove its name; its last user frees it", run_rm, 1, 1},
	{"read", "NAME OFFSET LENGTH", "write its bytes to stdout", run_read, 3, 3},
	{"write", "NAME OFFSET TEXT", "write TEXT into it; -: stdin", run_write, 3, 3},
	{"memset", "NAME OFFSET LENGTH BYTE", "fill a part of it", run_memset, 4, 4},
	{"chmod", "NAME MODE", "set who may open it", run_rights, 2, 2},
	{"grant", "NAME PRINCIPAL r|rw|none", "change the rights of a user", run_rights, 3, 3},
	{"seal", "NAME", "make it read-only for good", run_seal, 1, 1},
	{"quota", "[PRINCIPAL [BYTES [REGIONS]]]", "print or set the limits of a user", run_quota,
	 0, 3},
	{"topo", "", "print devices and their peer access", run_topo, 0, 0},
	{"echo", "TEXT", "test whether the broker replies", run_echo, 1, 1},
	{"halt", "", "end the broker", run_halt, 0, 0},
	{"shell", "", "read commands of the first M3's shell", run_shell, 0, 0},
};

static int usage(int status)
{
	FILE *out = status ? stderr : stdout;

	fprintf(out, "Usage: m3 [--socket PATH] COMMAND [ARGUMENT]...\n       m3 --help | "
		     "--version\n\n");
	for (size_t i = 0; i < CK_ARRAY_SIZE(commands); i++)
		fprintf(out, "  %-7s%-32s%s\n", commands[i].name, commands[i].arguments,
			commands[i].help);
	return status;
}

static int no_broker(const char *path, int status)
{
	const char *where = path ? path : ck_env_string("CRICKET_M3");

	where = where && *where ? where : "the usual sockets";
	if (status != M3_EIO)
		return failed(where, status);
	fprintf(stderr, "m3: %s: no broker answers: is cricket-rpc-server or m3-server running?\n",
		where);
	return 1;
}

int main(int argc, char **argv)
{
	m3_opts opts = {.device = M3_ANY_DEVICE, .no_driver = 1};
	const struct command *k = NULL;
	m3_client *client;
	int at = 1, status;

	if (argc > 1 && strcmp(argv[1], "--help") == 0)
		return usage(0);
	if (argc > 1 && strcmp(argv[1], "--version") == 0) {
		puts("m3 " CK_RELEASE);
		return 0;
	}
	if (argc > 2 && strcmp(argv[1], "--socket") == 0) {
		opts.path = argv[2];
		at = 3;
	}
	for (size_t i = 0; at < argc && i < CK_ARRAY_SIZE(commands); i++) {
		if (strcmp(commands[i].name, argv[at]) == 0)
			k = &commands[i];
	}
	if (!k && at < argc)
		fprintf(stderr, "m3: no such command: %s\n", argv[at]);
	if (k && (argc - at - 1 < k->least || argc - at - 1 > k->most)) {
		fprintf(stderr, "Usage: m3 %s %s\n", k->name, k->arguments);
		return 2;
	}
	if (!k)
		return usage(2);
	status = m3_connect(&opts, &client);
	if (status != M3_OK)
		return no_broker(opts.path, status);
	status = k->run(client, argc - at - 1, argv + at + 1);
	m3_disconnect(client);
	return status;
}
