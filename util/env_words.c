/*
 * util/env_words.c - the table of the words of variables that are lists; see env.h.
 */
#include <stddef.h>

#include "util/env.h"

#define EMU "CRICKET_EMU"

static const struct ck_env_word words[] = {
	{EMU, "devices", "CRICKET_EMU_DEVICES", "1", CK_ENV_NUMBER, CK_ENV_EMU, NULL,
	 "number of GPUs, at most 8"},
	{EMU, "memory", "CRICKET_EMU_MEMORY", "2G", CK_ENV_NUMBER, CK_ENV_EMU, NULL,
	 "memory of each GPU, in bytes"},
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
	{EMU, "threads", "CRICKET_EMU_THREADS", "0", CK_ENV_NUMBER, CK_ENV_EMU, NULL,
	 "number of threads that run a grid; 0: one per processor"},
	{EMU, "check", "CRICKET_EMU_CHECK", NULL, CK_ENV_TEXT, CK_ENV_EMU, "race, init, count",
	 "check shared memory: race, init, or both, as in race+init; each finding\n"
	 "is a line on stderr, and kernels run slower; count: report the\n"
	 "instructions of each launch"},
	{NULL, NULL, NULL, NULL, CK_ENV_TEXT, 0, NULL, NULL},
};

const struct ck_env_word *ck_env_words(void)
{
	return words;
}
