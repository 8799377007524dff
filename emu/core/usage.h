/*
 * emu/core/usage.h - the device memory and time that each process uses: a table that the processes
 * of a user share. NVML reports it. With CRICKET_EMU=shared the processes also share the memory.
 */
#ifndef CK_EMU_CORE_USAGE_H
#define CK_EMU_CORE_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#define CK_EMU_USERS 512 /* rows of the table: processes at a time */

struct ck_emu_use {
	unsigned int pid;
	uint64_t bytes;
	uint64_t busy_ns; /* in which it has carried out commands of streams, all in all */
};

/* At the start and the end of the driver. Without a table there is only this process. */
void ck_emu_usage_join(void);
/* The process may be another one to the table: it was dumped, and restored. */
void ck_emu_usage_rejoin(void);
void ck_emu_usage_leave(void);
/* This process uses @bytes of the device of that number from now on. */
void ck_emu_usage_set(int number, uint64_t bytes);
/* The same, of @total bytes; false: too little is left by the processes that share it. */
bool ck_emu_usage_claim(int number, uint64_t bytes, uint64_t total);
/* Add to its time with the device of that number. The processes that have had any: how many. */
void ck_emu_usage_busy(int number, uint64_t ns);
unsigned int ck_emu_usage_list_busy(int number, struct ck_emu_use list[CK_EMU_USERS]);
/* Bytes of a shared device that other processes use. */
uint64_t ck_emu_usage_others(int number);
/* The living processes that use memory of the device: how many. */
unsigned int ck_emu_usage_list(int number, struct ck_emu_use list[CK_EMU_USERS]);

#endif
