/*
 * emu/memory/ipc.h - memory of other processes that this one has opened.
 */
#ifndef CK_EMU_MEMORY_IPC_H
#define CK_EMU_MEMORY_IPC_H

#include <stddef.h>
#include <stdint.h>

/* Unmap what ipc.c has mapped for a range of kind IPC. */
void ck_emu_ipc_unmap(uint64_t address, size_t size);

#endif
