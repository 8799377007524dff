/*
 * util/env.c - the table of environment variables; see env.h.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/env.h"
#include "util/util.h"

static const struct ck_env_row table[] = {
	{"REMOTE_GPU_ADDRESS", NULL,
	 "client: where the server is: HOST, HOST:PORT, tcp://HOST:PORT, unix:/PATH or shm:/PATH;\n"
	 "ssh://[USER@]HOST[:PORT]: through ssh; local: this host, where a server for this "
	 "program\n"
	 "alone is started if none answers; file:/PATH:\n"
	 "the addresses are in this file, and are read again when the server is gone; srv:NAME: "
	 "DNS has them,\n"
	 "as SRV records of _cricket._tcp.NAME, and the first with a session is used; without it, "
	 "the\n"
	 "usual unix socket of a server on this host, with shared memory. A list of servers, each "
	 "with the\n"
	 "devices to use if not all, as in a,b:9910,c/0,1 and unix:/PATH//0: one list of GPUs; "
	 "a/0|b/1: b if a\n"
	 "has no session"},
	{"CRICKET_SSH", "ssh",
	 "client and cricket: the command for ssh:// addresses, with options, for the shell; it "
	 "asks no\n"
	 "questions (BatchMode)"},
	{"CRICKET_SSH_SOCKET", NULL,
	 "client and cricket: the server's unix socket on the host of an ssh:// address (default: "
	 "it is looked for), or "
	 "HOST:PORT as seen from there"},
	{"CRICKET_LOCAL_DRIVER", "cuda", "client: --driver of the server that \"local\" starts"},
	{"CRICKET_RESOLVER", NULL,
	 "client and cricket: the name server for srv: addresses, as ADDRESS or ADDRESS:PORT, "
	 "IPv4; "
	 "default:\n"
	 "those of /etc/resolv.conf"},
	{"CRICKET_NEED", NULL,
	 "client: bytes that must be free on each of the GPUs when the session begins, as in 40G; "
	 "else the\n"
	 "server refuses it, so that the next choice of REMOTE_GPU_ADDRESS is tried"},
	{"CRICKET_POOL", "all",
	 "client: if a server of the list is missing at the start: all (the start fails) or any "
	 "(the program\n"
	 "goes on without it)"},
	{"CRICKET_POOL_DIRECT", "1",
	 "client: 0 copies between two servers through the program's host, and not directly"},
	{"CRICKET_SHM", "1",
	 "client and server: 0 keeps connections on one host out of shared memory"},
	{"CRICKET_SPIN", NULL,
	 "client, server and gpu_launcher: the most microseconds that a waiting thread spins "
	 "before it\n"
	 "sleeps; 0: it sleeps at once; default: adapts to how often spinning succeeded, 10000 at "
	 "most,\n"
	 "and 100 with less than four processors"},
	{"CRICKET_LOG", NULL,
	 "what to log on stderr: a level (none, error, warning, info, debug, trace) or a list of\n"
	 "part:level, as in client:trace,server:info"},
	{"CRICKET_LOG_FORMAT", "text", "form of log lines: text, or json, an object on a line"},
	{"CRICKET_LOG_FD", "2", "descriptor that log lines are written to"},
	{"CRICKET_LOG_DROP", "0",
	 "1: drops log lines that a full pipe has no room for, and summarises repeated ones; 0: "
	 "waits for\n"
	 "room, and writes all. cricket-rpc-server has 1 unless it is set"},
	{"CRICKET_TRACE", "0",
	 "client: 1 prints every message to the server with its fields and result; else the path "
	 "of a\n"
	 "file to append them to"},
	{"CRICKET_STATS", "0",
	 "client: 1 prints at exit what each call cost: how many were answered here, sent, waited "
	 "for;\n"
	 "else the path of a file to append that to"},
	{"CRICKET_CACHE_DIR", NULL,
	 "server: folder of the module cache; default $XDG_CACHE_HOME/cricket, else "
	 "~/.cache/cricket, else\n"
	 "/var/cache/cricket. gpu_launcher: its kernel cache is the folder gpu_kernels in it"},
	{"CRICKET_SESSION", NULL,
	 "set by the server, for a worker that is started through a command of the policy and for "
	 "that command:\n"
	 "the session's name, as in s12"},
	{"CRICKET_CACHE_SIZE", "4G", "server: most bytes that the module cache may hold"},
	{"CRICKET_DRIVER", "auto",
	 "server, m3-server and gpu_launcher: driver library: auto, cuda (libcuda.so.1), emu\n"
	 "(libcuda-emu.so), or a path; gpu_launcher also: remote (cricket-client.so)"},
	{"CRICKET_SANDBOX", "auto",
	 "server: refuse system calls that workers never make: auto (if the kernel can), on, off; "
	 "log: allow\n"
	 "them, and let the kernel log them"},
	{"CRICKET_EMU_DEVICES", "1", "emulated driver: number of devices"},
	{"CRICKET_EMU_MACHINE", "0",
	 "emulated driver: number of the machine, 0 to 255: GPUs of different machines have "
	 "different UUIDs"},
	{"CRICKET_EMU_PEERS", "1", "emulated driver: 0 when no device reaches another's memory"},
	{"CRICKET_EMU_THREADS", "0",
	 "emulated driver: threads that run a grid; 0: as many as there are processors"},
	{"CRICKET_EMU_MEMORY", "2G", "emulated driver: memory of each device, in bytes"},
	{"CRICKET_EMU_CHECK", NULL,
	 "emulated driver: check shared memory: race, init, or both, as in race,init; each finding "
	 "is a line\n"
	 "on stderr, and kernels run slower; count: instructions of each launch"},
	{"CRICKET_EMU_DIRTY", "0",
	 "emulated driver: 1 fills new memory of cuMemCreate with garbage, as a driver may leave "
	 "it"},
	{"CRICKET_EMU_USAGE", NULL,
	 "emulated driver: file in which processes share how much device memory they use, for\n"
	 "NVML; default: one in /dev/shm for each user; empty: NVML shows each process alone"},
	{"CRICKET_EMU_SHARED", "0",
	 "emulated driver: 1: the processes of that file share each device's memory, as on a real "
	 "GPU"},
	{"CRICKET_M3", NULL,
	 "m3: socket of the memory broker; default: the server's usual unix socket and .m3"},
	{"CRICKET_WCM_BACKING", "auto",
	 "chunked memory: ipc (CUDA's IPC handles), vmm (descriptors of cuMemCreate), or auto: the "
	 "one that works"},
	{"CRICKET_WCM_GROUP", NULL,
	 "chunked memory: name under which the ranks meet; default: of the job of Open MPI, Slurm "
	 "or\n"
	 "torchrun, else of the parent process"},
	{"CRICKET_WCM_TIMEOUT", "60", "chunked memory: seconds that ranks wait for each other"},
	{"CRICKET_TOKEN", NULL,
	 "secret that client and server must share, when the server has one"},
	{"CRICKET_TLS", NULL,
	 "client: encrypts connections over TCP: require (else there is no connection), offer (if "
	 "the "
	 "server\n"
	 "has TLS) or off; default: require with one of the next four; else off, but CRICKET_TOKEN "
	 "is\n"
	 "not sent to another host without TLS"},
	{"CRICKET_TLS_CA", NULL,
	 "client: file of the authorities (PEM) that sign servers' certificates; default: the "
	 "system's"},
	{"CRICKET_TLS_PIN", NULL,
	 "client: the server's key, as sha256: and 64 digits, which its log prints; authority and "
	 "name then\n"
	 "do not matter"},
	{"CRICKET_TLS_CERT", NULL,
	 "client: file of its own certificate (PEM), for servers with --tls-ca"},
	{"CRICKET_TLS_KEY", NULL, "client: file of the private key of CRICKET_TLS_CERT"},
	{"CRICKET_CONNECTIONS", NULL,
	 "client: connections that a large copy uses at a time, 1 to 8 (default: 4, fewer on\n"
	 "machines with less than 8 processors)"},
	{"CRICKET_COMPRESS", "auto",
	 "client: compresses copies to the device, and modules, on their way to another machine: "
	 "auto (where\n"
	 "it is faster than the network), 1 (always) or 0 (never)"},
	{"CRICKET_LOST", "sigbus",
	 "client: an access to managed memory after the server is lost: sigbus (it raises SIGBUS) "
	 "or\n"
	 "zeros (it reads as zeros)"},
	{"CRICKET_ARENA", "1",
	 "client: 0 has the server choose the addresses of device memory, so that allocations "
	 "wait"},
	{"CRICKET_RESUME", "60s",
	 "client: time for which calls wait when the connections to the server are cut, in s, m or "
	 "h; "
	 "the\n"
	 "server may allow less (--keep). 0: a cut ends the session"},
	{"CRICKET_WAIT", "0",
	 "client: time to wait for a session if the server has no more, in s, m or h"},
	{"CRICKET_MEMORY", "0",
	 "client: most device memory that the program gets of each GPU, in bytes, with K, M, G or "
	 "T; "
	 "0: as\n"
	 "much as the server gives"},
	{"CRICKET_WORKER_PREFIX", NULL,
	 "client: name of a command, such as a profiler, that the server starts the program's "
	 "worker "
	 "through, if\n"
	 "its policy says so"},
	{"CRICKET_TIMEOUT", "10", "client: seconds to wait for a connection to the server"},
	{"CRICKET_INJECT", NULL,
	 "client: plays a slower network: rtt=TIME (us, ms, s), bw=RATE (bits/s; k, M, G), or "
	 "both, as in\n"
	 "rtt=500us,bw=10G"},
	{"CRICKET_CUPTI", NULL,
	 "client: 0 leaves libcupti.so to whoever else has that name; server: the path of the "
	 "CUPTI "
	 "library\n"
	 "that records what the GPU does, where none is found by its name"},
	{"CRICKET_NCCL", "auto",
	 "client: where NCCL runs: workers (on the servers, in their own library), program "
	 "(unchanged above the client), "
	 "auto: workers with several servers"},
	{"CRICKET_NCCL_TIMEOUT", "30m",
	 "client: time for which the making of a communicator waits for its other ranks, in s, m "
	 "or h; 0: for as long as NCCL "
	 "does"},
	{"CRICKET_NCCL_LIBRARY", NULL,
	 "server: NCCL's library for clients, if it is not libnccl.so.2 of the system; off: none "
	 "(--nccl)"},
	{"CRICKET_PROFILE", NULL,
	 "client: file for a timeline of the program's calls, messages and work on the GPU (JSON "
	 "for Perfetto)"},
	{"CRICKET_NVML", "1", "client: 0 leaves libnvidia-ml.so.1 to whoever else has that name"},
	{"CUDA_VISIBLE_DEVICES", NULL,
	 "as in CUDA: which devices the program sees, and in which order; empty for none"},
	{"CUDA_DEVICE_ORDER", "FASTEST_FIRST", "as in CUDA: FASTEST_FIRST or PCI_BUS_ID"},
	{"CUDA_MODULE_LOADING", "LAZY", "as in CUDA: LAZY or EAGER"},
	{"CUDA_LAUNCH_BLOCKING", "0", "as in CUDA: 1 waits for each kernel after its launch"},
	{NULL, NULL, NULL},
};

const struct ck_env_row *ck_env_table(void)
{
	return table;
}

static const struct ck_env_row *row_find(const char *name)
{
	for (const struct ck_env_row *row = table; row->name; row++) {
		if (strcmp(row->name, name) == 0)
			return row;
	}
	return NULL;
}

void ck_env_help(FILE *out)
{
	for (const struct ck_env_row *row = table; row->name; row++) {
		fprintf(out, "%s", row->name);
		if (row->fallback)
			fprintf(out, " (default %s)", row->fallback);
		fprintf(out, "\n    ");
		for (const char *c = row->help; *c; c++) {
			fputc(*c, out);
			if (*c == '\n')
				fprintf(out, "    ");
		}
		fputc('\n', out);
	}
}

const char *ck_env_string(const char *name)
{
	const struct ck_env_row *row = row_find(name);
	const char *value;

	if (!row)
		return NULL;
	value = getenv(name);
	return value ? value : row->fallback;
}

static bool number_parse(const char *text, long *out)
{
	static const char suffixes[] = "KMGT";
	int saved_errno = errno;
	const char *suffix;
	char *end, upper;
	long value;
	bool ok;

	errno = 0;
	value = strtol(text, &end, 0);
	ok = errno == 0 && end != text;
	errno = saved_errno;
	if (!ok)
		return false;
	if (*end) {
		upper = (char)(*end >= 'a' && *end <= 'z' ? *end - 'a' + 'A' : *end);
		suffix = strchr(suffixes, upper);
		if (!suffix || end[1])
			return false;
		if (ck_mul_overflow(value, 1L << (10 * (suffix - suffixes + 1)), &value))
			return false;
	}
	*out = value;
	return true;
}

long ck_env_long(const char *name)
{
	const struct ck_env_row *row = row_find(name);
	const char *value = row ? getenv(name) : NULL;
	long number;

	if (value && number_parse(value, &number))
		return number;
	if (row && row->fallback && number_parse(row->fallback, &number))
		return number;
	return 0;
}

int ck_env_number(const char *text, uint64_t *number)
{
	long value;

	if (!number_parse(text, &value) || value < 0)
		return -EINVAL;
	*number = (uint64_t)value;
	return 0;
}

int ck_env_time(const char *text, uint64_t *seconds)
{
	static const struct {
		char unit;
		unsigned int seconds;
	} units[] = {{'\0', 1}, {'s', 1}, {'m', 60}, {'h', 3600}};
	char *end;
	unsigned long long number;

	if (strspn(text, "0123456789") == 0)
		return -EINVAL;
	errno = 0;
	number = strtoull(text, &end, 10);
	for (size_t i = 0; !errno && i < CK_ARRAY_SIZE(units); i++) {
		if (*end == units[i].unit && (*end == '\0' || end[1] == '\0'))
			return ck_mul_overflow(number, units[i].seconds, seconds) ? -EINVAL : 0;
	}
	return -EINVAL;
}

uint64_t ck_env_seconds(const char *name)
{
	const struct ck_env_row *row = row_find(name);
	const char *value = row ? getenv(name) : NULL;
	uint64_t seconds = 0;

	if ((!value || ck_env_time(value, &seconds) < 0) && row && row->fallback)
		ck_env_time(row->fallback, &seconds);
	return seconds;
}
