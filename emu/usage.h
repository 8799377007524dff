/*
 * emu/usage.h - the device memory that each process uses: a table that the processes of a user
 * share. NVML reports it; nothing else depends on it.
 */
#ifndef CK_EMU_USAGE_H
#define CK_EMU_USAGE_H

#include <stdint.h>

#define CK_EMU_USERS 512 /* rows of the table: processes at a time */

struct ck_emu_use {
	unsigned int pid;
	uint64_t bytes;
};

/* At the start and the end of the driver. Without a table there is only this process. */
void ck_emu_usage_join(void);
void ck_emu_usage_leave(void);
/* This process uses @bytes of the device of that number from now on. */
void ck_emu_usage_set(int number, uint64_t bytes);
/* The living processes that use memory of the device: how many. */
unsigned int ck_emu_usage_list(int number, struct ck_emu_use list[CK_EMU_USERS]);

#endif
