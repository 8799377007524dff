/*
 * util/env_words.c - the table of the words of variables that are lists; see env.h.
 */
#include <stddef.h>

#include "util/env.h"

#define DEBUG "CRICKET_DEBUG"
#define EMU "CRICKET_EMU"
#define WCM "CRICKET_WCM"
#define BOTH (CK_ENV_CLIENT | CK_ENV_SERVER)

static const struct ck_env_word words[] = {
	{DEBUG, "shm", "CRICKET_SHM", "1", CK_ENV_SWITCH, BOTH, NULL,
	 "client and server: no shared memory between client and server on one host"},
	{DEBUG, "arena", "CRICKET_ARENA", "1", CK_ENV_SWITCH, CK_ENV_CLIENT, NULL,
	 "client: the server chooses the addresses of device memory, so allocations\n"
	 "wait for it"},
	{DEBUG, "splice", "CRICKET_SPLICE", "1", CK_ENV_SWITCH, CK_ENV_CLIENT, NULL,
	 "client: copy the data of large copies to the device into the kernel before\n"
	 "it is sent"},
	{DEBUG, "direct", "CRICKET_POOL_DIRECT", "1", CK_ENV_SWITCH, CK_ENV_CLIENT, NULL,
	 "client: copies between two servers go through the program's host"},
	{DEBUG, "relay", NULL, "0", CK_ENV_SWITCH, CK_ENV_CLIENT, NULL,
	 "client: a process of the server relays each TLS connection; default: TLS\n"
	 "ends in the session's process, except on the first connection"},
	{DEBUG, "compress", "CRICKET_COMPRESS", NULL, CK_ENV_SWITCH, CK_ENV_CLIENT, "0, 1, auto",
	 "client: compress copies to the device, and modules, for a server on another\n"
	 "machine: always or never; default: if it is faster than the network"},
	{DEBUG, "nvml", "CRICKET_NVML", "1", CK_ENV_SWITCH, CK_ENV_CLIENT, NULL,
	 "client: do not provide libnvidia-ml.so.1"},
	{DEBUG, "cupti", "CRICKET_CUPTI", NULL, CK_ENV_TEXT, BOTH, NULL,
	 "client: no-cupti: do not provide libcupti.so; server: cupti=PATH: the CUPTI\n"
	 "library that records the GPU's work; default: found by its name"},
	{DEBUG, "spin", "CRICKET_SPIN", NULL, CK_ENV_NUMBER, BOTH, NULL,
	 "client, server and gpu_launcher: maximum time in microseconds that a\n"
	 "waiting thread spins before it sleeps; 0: it sleeps at once; default:\n"
	 "adapts to how often spinning succeeded, at most 10000, and at most 100\n"
	 "with fewer than four processors"},
	{DEBUG, "resolver", "CRICKET_RESOLVER", NULL, CK_ENV_TEXT, CK_ENV_CLIENT, NULL,
	 "client and cricket: the name server for srv: addresses, as ADDRESS or\n"
	 "ADDRESS:PORT (IPv4); default: those of /etc/resolv.conf"},
	{EMU, "devices", "CRICKET_EMU_DEVICES", "1", CK_ENV_NUMBER, CK_ENV_EMU, NULL,
	 "number of GPUs, at most 8"},
	{EMU, "memory", "CRICKET_EMU_MEMORY", "2G", CK_ENV_NUMBER, CK_ENV_EMU, NULL,
	 "memory of each GPU, in bytes"},
	{EMU, "context", NULL, "0", CK_ENV_NUMBER, CK_ENV_EMU, NULL,
	 "memory of its GPU that each context takes, in bytes"},
	{EMU, "machine", "CRICKET_EMU_MACHINE", "0", CK_ENV_NUMBER, CK_ENV_EMU, NULL,
	 "number of the machine, 0 to 255; GPUs of different machines have\n"
	 "different UUIDs"},
	{EMU, "peers", "CRICKET_EMU_PEERS", "1", CK_ENV_SWITCH, CK_ENV_EMU, NULL,
	 "no GPU can access another's memory"},
	{EMU, "shared", "CRICKET_EMU_SHARED", "0", CK_ENV_SWITCH, CK_ENV_EMU, NULL,
	 "the processes that use one file (usage) share each GPU's memory, as on\n"
	 "a real GPU"},
	{EMU, "usage", "CRICKET_EMU_USAGE", NULL, CK_ENV_TEXT, CK_ENV_EMU, NULL,
	 "file in which processes publish how much device memory they use, for\n"
	 "NVML; default: one in /dev/shm for each user; empty: NVML shows each\n"
	 "process alone"},
	{EMU, "dirty", "CRICKET_EMU_DIRTY", "0", CK_ENV_SWITCH, CK_ENV_EMU, NULL,
	 "fill new memory of cuMemCreate with arbitrary bytes"},
	{EMU, "socket", NULL, "0", CK_ENV_SWITCH, CK_ENV_EMU, NULL,
	 "bind an abstract unix socket in each process, as NVIDIA's driver does:\n"
	 "CRIU cannot restore it where its name is in use"},
	{EMU, "threads", "CRICKET_EMU_THREADS", "0", CK_ENV_NUMBER, CK_ENV_EMU, NULL,
	 "number of threads that run a grid; 0: one per processor"},
	{EMU, "check", "CRICKET_EMU_CHECK", NULL, CK_ENV_TEXT, CK_ENV_EMU,
	 "race, init, bounds, count",
	 "check shared memory: race, init, or both, as in race+init; each finding\n"
	 "is a line on stderr, and kernels run slower; bounds: leave addresses\n"
	 "between allocations unused, so that accesses behind one fail; count: report\n"
	 "the instructions of each launch"},
	{WCM, "group", "CRICKET_WCM_GROUP", NULL, CK_ENV_TEXT, CK_ENV_WCM, NULL,
	 "name under which the ranks meet; default: that of the job of Open MPI, Slurm\n"
	 "or torchrun, else of the parent process"},
	{WCM, "backing", "CRICKET_WCM_BACKING", "auto", CK_ENV_TEXT, CK_ENV_WCM, "auto, ipc, vmm",
	 "ipc (CUDA's IPC handles), vmm (descriptors of cuMemCreate), or auto (the\n"
	 "first that works)"},
	{WCM, "timeout", "CRICKET_WCM_TIMEOUT", "60", CK_ENV_NUMBER, CK_ENV_WCM, NULL,
	 "seconds for which ranks wait for each other"},
	{NULL, NULL, NULL, NULL, CK_ENV_TEXT, 0, NULL, NULL},
};

const struct ck_env_word *ck_env_words(void)
{
	return words;
}
