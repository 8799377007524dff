/*
 * launcher/options/options.c - the command line of gpu_launcher; see its man page.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/options/options.h"
#include "launcher/request/reply.h"
#include "launcher/text/failure.h"
#include "util/address/address.h"
#include "util/env.h"
#include "util/util.h"

#define CACHE_SIZE (UINT64_C(1) << 30)
#define INPUT_MAX (UINT64_C(16) << 30)
#define SIZE_LIMIT (UINT64_C(1) << 55) /* more than any machine has */
#define COMPILE_SM 75		       /* the oldest that today's compilers know: runs everywhere */

enum {
	OPT_BATCH = 256,
	OPT_DAEMON,
	OPT_CONNECT,
	OPT_CACHE,
	OPT_COMPILE,
	OPT_DRIVER,
	OPT_DEVICE,
	OPT_SHARED,
	OPT_TIMEOUT,
	OPT_TIMING,
	OPT_LEND,
	OPT_FORMAT,
	OPT_OPTION,
	OPT_COMPILER,
	OPT_ARCH,
	OPT_CACHE_DIR,
	OPT_CACHE_SIZE,
	OPT_MAX_INPUT,
	OPT_LOG,
	OPT_REQUEST,
	OPT_HELP,
	OPT_VERSION,
};

static const struct option long_options[] = {
	{"batch", no_argument, NULL, OPT_BATCH},
	{"daemon", required_argument, NULL, OPT_DAEMON},
	{"connect", required_argument, NULL, OPT_CONNECT},
	{"cache", required_argument, NULL, OPT_CACHE},
	{"compile", required_argument, NULL, OPT_COMPILE},
	{"driver", required_argument, NULL, OPT_DRIVER},
	{"device", required_argument, NULL, OPT_DEVICE},
	{"shared", required_argument, NULL, OPT_SHARED},
	{"timeout-ms", required_argument, NULL, OPT_TIMEOUT},
	{"timing", no_argument, NULL, OPT_TIMING},
	{"lend", no_argument, NULL, OPT_LEND},
	{"format", required_argument, NULL, OPT_FORMAT},
	{"option", required_argument, NULL, OPT_OPTION},
	{"compiler", required_argument, NULL, OPT_COMPILER},
	{"arch", required_argument, NULL, OPT_ARCH},
	{"cache-dir", required_argument, NULL, OPT_CACHE_DIR},
	{"cache-size", required_argument, NULL, OPT_CACHE_SIZE},
	{"max-input", required_argument, NULL, OPT_MAX_INPUT},
	{"request", required_argument, NULL, OPT_REQUEST},
	{"log", required_argument, NULL, OPT_LOG},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

static const char usage[] =
	"Usage: gpu_launcher [OPTION]... FILE KERNEL GRID_X GRID_Y GRID_Z BLOCK_X BLOCK_Y BLOCK_Z\n"
	"       gpu_launcher [OPTION]... --batch | --daemon PATH\n"
	"       gpu_launcher --cache ls|prune|verify | --compile FILE [NAME]\n";

static void print_help(void)
{
	fputs(usage, stdout);
	puts("Run a kernel of FILE (PTX, cubin, fat binary, or CUDA C++ in a file *.cu) on arrays\n"
	     "from stdin, as JSON or binary frames, and write the results to stdout. FILE may be "
	     "a\n"
	     "pipe, or - for stdin.\n\n"
	     "  --request FILE        read the request from FILE instead of stdin\n"
	     "  --batch               read many requests from stdin; arrays can stay on the GPU\n"
	     "  --daemon PATH         serve batches to clients of a unix socket; auto: the "
	     "default\n"
	     "                        path\n"
	     "  --connect PATH        use a daemon; auto: if one runs\n"
	     "  --connect HOST[:PORT] use the GPU of a cricket-rpc-server\n"
	     "  --driver WHICH        auto, cuda, emu, remote, or the path of a driver library\n"
	     "  --device N            number of the GPU (default 0)\n"
	     "  --shared BYTES        dynamic shared memory of a block (default 0)\n"
	     "  --timeout-ms N        end a launch that takes longer\n"
	     "  --timing              add the durations of the parts to the reply\n"
	     "  --lend                with --batch: do not copy large results into the pipe; the\n"
	     "                        reader of stdout must use read(2)\n"
	     "  --format json|bin     form of errors that occur before a request is read\n"
	     "  --option OPTION       option for the compiler, as in --option=-DN=4; may be given\n"
	     "                        several times\n"
	     "  --compiler WHICH      auto, nvrtc, nvcc, or the path of one\n"
	     "  --compile FILE        put CUDA C++ into the cache and print its place; needs no\n"
	     "                        GPU. For stdin (-), NAME is the name of its files\n"
	     "  --arch SM             architecture for --compile (default 75)\n"
	     "  --cache COMMAND       ls, prune or verify the kernel cache\n"
	     "  --cache-dir DIR       folder of the kernel cache\n"
	     "  --cache-size BYTES    maximum size of the cache, with K, M, G or T (default 1G)\n"
	     "  --max-input BYTES     maximum size of a request (default 16G)\n"
	     "  --log LEVELS          as CRICKET_LOG\n"
	     "  --help, --version");
}

/* On stderr for people, on stdout as for every failure. */
static int reject_option(const char *what, const char *value)
{
	struct ckl_fail fail = {0};
	struct ckl_out out = {0};

	fprintf(stderr, "gpu_launcher: %s: %s\n%s", what, value, usage);
	ckl_fail(&fail, CK_EXIT_USAGE, "usage", "USAGE", "%s: %.300s", what, value);
	ckl_reply_fail(&out, false, 0, &fail);
	fwrite(out.base, 1, out.size, stdout);
	free(out.base);
	return -EINVAL;
}

static int parse_number(const char *text, long low, long high, long *out)
{
	char *end;

	errno = 0;
	*out = strtol(text, &end, 10);
	if (errno || end == text || *end || *out < low || *out > high)
		return reject_option("not a valid number here", text);
	return 0;
}

/* With K, M, G or T. */
static int parse_size(const char *text, uint64_t *out)
{
	static const char suffixes[] = "KMGT";
	char *end;
	const char *suffix;
	unsigned long long value;

	unsigned shift;

	errno = 0;
	value = strtoull(text, &end, 10);
	suffix = *end ? strchr(suffixes, *end & ~0x20) : NULL;
	shift = suffix ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
	if (errno || end == text || *text == '-' || (*end && (!suffix || end[1])) ||
	    value > SIZE_LIMIT >> shift)
		return reject_option("not a size", text);
	*out = value << shift;
	return 0;
}

static int set_number(struct ckl_options *o, const char *key, const char *text, long high)
{
	long value;
	int ret = parse_number(text, 0, high, &value);

	return ret < 0 ? ret : json_object_set_new(o->defaults, key, json_integer(value));
}

static int add_option(struct ckl_options *o, const char *text)
{
	json_t *list = json_object_get(o->defaults, "options");

	if (!list) {
		list = json_array();
		json_object_set_new(o->defaults, "options", list);
	}
	return json_array_append_new(list, json_string(text)) < 0 ? reject_option("not UTF-8", text)
								  : 0;
}

/* The usual path of a daemon's socket: $XDG_RUNTIME_DIR/gpu_launcher.sock, else one in /tmp. */
static const char *usual_socket(void)
{
	static char path[PATH_MAX];
	const char *base = getenv("XDG_RUNTIME_DIR");

	if (base && *base == '/')
		snprintf(path, sizeof(path), "%s/gpu_launcher.sock", base);
	else
		snprintf(path, sizeof(path), "/tmp/gpu_launcher-%u.sock", (unsigned)getuid());
	return path;
}

/* A path is a daemon's socket; any other word is a host with a cricket-rpc-server. */
static int parse_connect(struct ckl_options *o, const char *value)
{
	enum ck_address_kind kind = ck_address_kind_of(value);

	if (kind == CK_ADDRESS_UNIX)
		value = ck_address_path(value);
	if (strcmp(value, "auto") == 0) {
		o->connect = o->connect_try = true;
		o->daemon = usual_socket();
	} else if (kind == CK_ADDRESS_UNIX || (kind == CK_ADDRESS_TCP && strchr(value, '/'))) {
		o->connect = true;
		o->daemon = value;
	} else {
		o->driver = "remote";
		return setenv("REMOTE_GPU_ADDRESS", value, 1) < 0 ? -errno : 0;
	}
	return 0;
}

static int parse_word(const char *value, const char *const *words, const char *what)
{
	for (; *words; words++) {
		if (strcmp(value, *words) == 0)
			return 0;
	}
	return reject_option(what, value);
}

/* Defaults of each launch. */
static int parse_default(int option, const char *value, struct ckl_options *o)
{
	switch (option) {
	case OPT_SHARED:
		return set_number(o, "shared", value, INT_MAX);
	case OPT_TIMEOUT:
		return set_number(o, "timeout_ms", value, UINT32_MAX);
	case OPT_OPTION:
		return add_option(o, value);
	default:
		return json_object_set_new(o->defaults, "timing", json_true());
	}
}

/* Options that choose the mode. */
static int parse_mode(int option, const char *value, struct ckl_options *o)
{
	static const char *const commands[] = {"ls", "prune", "verify", NULL};

	switch (option) {
	case OPT_BATCH:
		o->mode = CK_MODE_BATCH;
		return 0;
	case OPT_LEND:
		o->lend = true;
		return 0;
	case OPT_DAEMON:
		o->mode = CK_MODE_DAEMON;
		o->daemon = strcmp(value, "auto") == 0 ? usual_socket() : value;
		return 0;
	case OPT_CONNECT:
		return parse_connect(o, value);
	case OPT_CACHE:
		o->mode = CK_MODE_CACHE;
		o->cache_command = value;
		return parse_word(value, commands, "not ls, prune or verify");
	case OPT_COMPILE:
		o->mode = CK_MODE_COMPILE;
		o->compile_path = value;
		return 0;
	case OPT_HELP:
		print_help();
		return 1;
	case OPT_VERSION:
		printf("gpu_launcher %s\n", CK_RELEASE);
		return 1;
	default:
		return reject_option("there is no such option", "see --help");
	}
}

static int parse_option(int option, const char *value, struct ckl_options *o)
{
	static const char *const formats[] = {"json", "bin", NULL};
	long number = 0;
	int ret;

	switch (option) {
	case OPT_DRIVER:
		o->driver = value;
		return 0;
	case OPT_DEVICE:
		ret = parse_number(value, 0, 1023, &number);
		o->device = (int)number;
		return ret;
	case OPT_SHARED:
	case OPT_TIMEOUT:
	case OPT_TIMING:
	case OPT_OPTION:
		return parse_default(option, value, o);
	case OPT_FORMAT:
		o->frames = strcmp(value, "bin") == 0;
		return parse_word(value, formats, "not json or bin");
	case OPT_COMPILER:
		o->compiler = value;
		return 0;
	case OPT_ARCH:
		ret = parse_number(value, 10, 9999, &number);
		o->compile_sm = (unsigned)number;
		return ret;
	case OPT_CACHE_DIR:
		o->cache_dir = value;
		return 0;
	case OPT_CACHE_SIZE:
		return parse_size(value, &o->cache_size);
	case OPT_MAX_INPUT:
		return parse_size(value, &o->input_max);
	case OPT_REQUEST:
		o->request = strcmp(value, "-") == 0 ? NULL : value;
		return 0;
	case OPT_LOG:
		return setenv("CRICKET_LOG", value, 1) < 0 ? -errno : 0;
	default:
		return parse_mode(option, value, o);
	}
}

/* The eight arguments of a launch: file, kernel, sizes. The rest comes from stdin. */
static int parse_launch(struct ckl_options *o, char **arguments, int count)
{
	long sizes[6];
	int ret = 0;

	if (count != 8)
		return reject_option(count < 8 ? "too few arguments" : "too many arguments",
				     count ? arguments[count - 1] : "none");
	for (int i = 0; ret == 0 && i < 6; i++)
		ret = parse_number(arguments[i + 2], 0, UINT32_MAX, &sizes[i]);
	if (ret < 0)
		return ret;
	o->file = arguments[0];
	if (strcmp(o->file, "-") == 0 && !o->request)
		return reject_option("stdin cannot be the kernel and the request",
				     "give the request with --request FILE");
	if (json_object_set_new(o->defaults, "kernel", json_string(arguments[1])) < 0)
		return reject_option("a name is not UTF-8", "KERNEL");
	json_object_set_new(o->defaults, "grid",
			    json_pack("[III]", (json_int_t)sizes[0], (json_int_t)sizes[1],
				      (json_int_t)sizes[2]));
	json_object_set_new(o->defaults, "block",
			    json_pack("[III]", (json_int_t)sizes[3], (json_int_t)sizes[4],
				      (json_int_t)sizes[5]));
	return 0;
}

int ckl_options_parse(int argc, char **argv, struct ckl_options *o)
{
	int option, which = 0, ret;

	*o = (struct ckl_options){.compiler = "auto",
				  .cache_size = CACHE_SIZE,
				  .input_max = INPUT_MAX,
				  .compile_sm = COMPILE_SM,
				  .defaults = json_object()};
	opterr = 0;
	while ((option = getopt_long(argc, argv, "+", long_options, &which)) != -1) {
		if (option == '?')
			return reject_option("not an option, or its argument is missing",
					     argv[optind - 1]);
		if (optarg && !*optarg && option != OPT_OPTION)
			return reject_option("the value of an option is empty",
					     long_options[which].name);
		ret = parse_option(option, optarg, o);
		if (ret != 0)
			return ret;
	}
	if (!o->driver)
		o->driver = ck_env_string("CRICKET_DRIVER");
	if (o->mode == CK_MODE_DAEMON && o->connect)
		return reject_option("--daemon and --connect cannot be used together", o->daemon);
	if (o->request && o->mode != CK_MODE_ONCE && o->mode != CK_MODE_BATCH)
		return reject_option("this mode reads no request", o->request);
	if (o->mode == CK_MODE_ONCE)
		return parse_launch(o, argv + optind, argc - optind);
	if (o->mode == CK_MODE_COMPILE && optind < argc)
		o->compile_name = argv[optind++];
	return optind < argc ? reject_option("unexpected argument", argv[optind]) : 0;
}
