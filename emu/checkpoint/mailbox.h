/*
 * emu/checkpoint/mailbox.h - how a process is asked by others to lock, checkpoint, restore or
 * unlock itself.
 *
 * A process with the driver has a file in memory with a known name, which others find in
 * /proc/PID/fd. So only who may inspect the process can ask it. A thread of the process waits in
 * the file for questions. There is no connection, so the process can be dumped and restored at any
 * time, and the restored one is found like any other.
 */
#ifndef CK_EMU_CHECKPOINT_MAILBOX_H
#define CK_EMU_CHECKPOINT_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"
#include "emu/core/emu.h"

#define CK_EMU_MAILBOX "cricket emulated checkpoint"
#define CK_EMU_MAILBOX_MARK 0x78616d2d6b63ull

enum ck_emu_operation {
	CK_EMU_LOCK,
	CK_EMU_CHECKPOINT,
	CK_EMU_RESTORE,
	CK_EMU_UNLOCK,
};

/* The content of the file. One asks at a time, and holds the file's lock (flock) meanwhile. */
struct ck_emu_mailbox {
	uint64_t mark;
	int32_t thread;		/* id of the thread that answers */
	_Atomic int32_t state;	/* CUprocessState */
	_Atomic uint32_t asked; /* counts questions: the thread sleeps on it */
	_Atomic uint32_t answered;
	int32_t operation;
	uint32_t timeout_ms; /* of a lock; 0: none */
	int32_t result;	     /* CUresult */
	uint32_t gpus;	     /* of a restore: of the machine; */
	uint32_t pair_count; /* 0: each device stays */
	CUcheckpointGpuPair pairs[CK_EMU_MAX_DEVICES];
};

/* Make the mailbox of this process, with its thread. 0 or -errno; the driver works without one. */
int ck_emu_mailbox_start(void);
/* In the child of a fork: it has no thread, and is not its parent. */
void ck_emu_mailbox_forked(void);

/* The mailbox of process @pid, mapped, and its descriptor in *@fd: ck_emu_mailbox_close() both.
 * NULL: the process has none, or it may not be inspected. */
struct ck_emu_mailbox *ck_emu_mailbox_open(int pid, int *fd);
void ck_emu_mailbox_close(struct ck_emu_mailbox *box, int fd);

/* Sleep until *@word is no longer @value, or something else wakes; and wake who sleeps. */
void ck_emu_mailbox_doze(_Atomic uint32_t *word, uint32_t value);
void ck_emu_mailbox_wake(_Atomic uint32_t *word);

#endif
