/*
 * util/env_table.c - the table of environment variables; see env.h.
 */
#include <stddef.h>

#include "util/env.h"

static const struct ck_env_row table[] = {
	{"REMOTE_GPU_ADDRESS", NULL,
	 "client: the server: HOST, HOST:PORT, tcp://HOST:PORT, unix:/PATH or shm:/PATH;\n"
	 "ssh://[USER@]HOST[:PORT]: through ssh; local: this host, with a server for this program\n"
	 "alone if none answers; file:/PATH: the addresses in this file, which is read again when\n"
	 "the server is gone; srv:NAME: the SRV records of _cricket._tcp.NAME, of which the first\n"
	 "with a session is used. Default: the usual unix socket of a server on this host, with\n"
	 "shared memory. A list of servers, each with its devices if not all are used, as in\n"
	 "a,b:9910,c/0,1 and unix:/PATH//0, gives one list of GPUs; a/0|b/1: b if a has no "
	 "session"},
	{"CRICKET_SSH", "ssh",
	 "client and cricket: the command for ssh:// addresses, with options, for the shell; it\n"
	 "cannot ask for a password (BatchMode)"},
	{"CRICKET_SSH_SOCKET", NULL,
	 "client and cricket: the server's unix socket on the host of an ssh:// address, or\n"
	 "HOST:PORT as seen from that host; default: the first usual socket that exists"},
	{"CRICKET_LOCAL_DRIVER", "cuda", "client: --driver of the server that \"local\" starts"},
	{"CRICKET_NEED", NULL,
	 "client: bytes that must be free on each GPU when the session begins, as in 40G;\n"
	 "otherwise the server refuses it, and the next choice of REMOTE_GPU_ADDRESS is tried"},
	{"CRICKET_POOL", "all",
	 "client: if a server of the list cannot be used at the start: all (the start fails) or\n"
	 "any (the program starts without it)"},
	{"CRICKET_LOG", NULL,
	 "what to log on stderr: a level (none, error, warning, info, debug, trace) or a list of\n"
	 "part:level, as in client:trace,server:info"},
	{"CRICKET_LOG_FORMAT", "text",
	 "format of log lines: text, or json (an object on each line)"},
	{"CRICKET_LOG_FD", "2", "descriptor to which log lines are written"},
	{"CRICKET_LOG_DROP", "0",
	 "1: drop log lines for which a pipe has no space, and summarise repeated ones; 0: wait\n"
	 "for space, and write all lines. The default of cricket-rpc-server is 1"},
	{"CRICKET_TRACE", "0",
	 "client: 1: print every message to the server with its fields and result; otherwise the\n"
	 "path of a file to which they are appended"},
	{"CRICKET_STATS", "0",
	 "client: 1: print at exit how often each call was answered locally, sent or waited for,\n"
	 "and its times; otherwise the path of a file to which this is appended"},
	{"CRICKET_CACHE_DIR", NULL,
	 "server: folder of the module cache; default $XDG_CACHE_HOME/cricket, else\n"
	 "~/.cache/cricket, else /var/cache/cricket. gpu_launcher: its kernel cache is the folder\n"
	 "gpu_kernels in it"},
	{"CRICKET_SESSION", NULL,
	 "set by the server for a worker that it starts through a command of the policy, and for\n"
	 "that command: the session's name, as in s12"},
	{"CRICKET_CACHE_SIZE", "4G", "server: maximum size of the module cache"},
	{"CRICKET_DRIVER", "auto",
	 "server, m3-server and gpu_launcher: driver library: auto, cuda (libcuda.so.1), emu\n"
	 "(libcuda-emu.so), or a path; gpu_launcher also: remote (cricket-client.so)"},
	{"CRICKET_SANDBOX", "auto",
	 "server: refuse system calls that workers never make: auto (if the kernel can), on, off;\n"
	 "log: allow them, and let the kernel log them"},
	{"CRICKET_DEBUG", NULL,
	 "client and server: parts to change or to leave out, to find the cause of a fault or of\n"
	 "a time: a list of words, as in no-shm,spin=0:"},
	{"CRICKET_EMU", NULL,
	 "emulated driver: a list of words, as in devices=2,memory=4G,shared:"},
	{"CRICKET_M3", NULL,
	 "m3: socket of the memory broker; default: the server's usual unix socket with .m3\n"
	 "appended"},
	{"CRICKET_WCM", NULL, "chunked memory: a list of words, as in backing=vmm,timeout=10:"},
	{"CRICKET_TOKEN", NULL, "secret that client and server share, if the server requires one"},
	{"CRICKET_TOKEN_FILE", NULL,
	 "client: file whose first line is that secret, if CRICKET_TOKEN is not set"},
	{"CRICKET_TLS", NULL,
	 "client: encryption of connections over TCP: require (no connection without it), offer "
	 "(if\n"
	 "the server has TLS) or off. Default: require if one of the next four is set; otherwise\n"
	 "off, except that CRICKET_TOKEN is not sent to another host without TLS"},
	{"CRICKET_TLS_CA", NULL,
	 "client: file of the authorities (PEM) that sign servers' certificates; default: the "
	 "system's"},
	{"CRICKET_TLS_PIN", NULL,
	 "client: the server's key, as sha256: and 64 digits, as the server's log prints it, or\n"
	 "several with commas; the certificate's authority and name are then not checked"},
	{"CRICKET_TLS_CERT", NULL,
	 "client: file of its own certificate (PEM), for servers with --tls-ca"},
	{"CRICKET_TLS_KEY", NULL, "client: file of the private key of CRICKET_TLS_CERT"},
	{"CRICKET_CONNECTIONS", NULL,
	 "client: number of connections that a large copy uses, 1 to 32; default: 4, fewer on\n"
	 "machines with fewer than 8 processors, and more on long links"},
	{"CRICKET_WEIGHTS", "auto",
	 "client: keep large uploads on a server on another machine, so that the next start of "
	 "the\n"
	 "program need not send them: auto (if the network is slow), on or off"},
	{"CRICKET_LOST", "sigbus",
	 "client: effect of an access to managed memory after the server is lost: sigbus (raises\n"
	 "SIGBUS) or zeros (reads as zeros)"},
	{"CRICKET_RESUME", "60s",
	 "client: time for which calls wait when the connections to the server are cut, in s, m "
	 "or\n"
	 "h; the server may allow less (--keep). 0: a cut ends the session"},
	{"CRICKET_WAIT", "0",
	 "client: time to wait for a session if the server is full, in s, m or h"},
	{"CRICKET_MEMORY", "0",
	 "client: maximum device memory of the program on each GPU, in bytes, with K, M, G or T;\n"
	 "0: as much as the server allows"},
	{"CRICKET_SM", NULL,
	 "client: maximum part of each GPU's multiprocessors for the program, as in 25%; the\n"
	 "server's policy needs share = \"mps\" for this user"},
	{"CRICKET_WORKER_PREFIX", NULL,
	 "client: name of a command, such as a profiler, through which the server starts the\n"
	 "program's worker, if its policy allows it"},
	{"CRICKET_TIMEOUT", "10", "client: seconds to wait for a connection to the server"},
	{"CRICKET_NCCL", "auto",
	 "client: where NCCL runs: workers (on the servers, with their own library), program (the\n"
	 "unmodified library uses the client), or auto (workers with several servers)"},
	{"CRICKET_NCCL_TIMEOUT", "30m",
	 "client: time for which the creation of a communicator waits for its other ranks, in s, "
	 "m\n"
	 "or h; 0: as long as NCCL does"},
	{"CRICKET_NCCL_LIBRARY", NULL,
	 "server: NCCL's library for clients, if it is not the system's libnccl.so.2; off: no "
	 "NCCL\n"
	 "(--nccl)"},
	{"CRICKET_PROFILE", NULL,
	 "client: file for a timeline of the program's calls, messages and GPU work (JSON for\n"
	 "Perfetto)"},
	{"CUDA_VISIBLE_DEVICES", NULL,
	 "as in CUDA: which devices the program sees, and in which order; empty for none"},
	{"CUDA_DEVICE_ORDER", "FASTEST_FIRST", "as in CUDA: FASTEST_FIRST or PCI_BUS_ID"},
	{"CUDA_MODULE_LOADING", "LAZY", "as in CUDA: LAZY or EAGER"},
	{"CUDA_LAUNCH_BLOCKING", "0", "as in CUDA: 1: wait for each kernel after its launch"},
	{NULL, NULL, NULL},
};

const struct ck_env_row *ck_env_table(void)
{
	return table;
}
