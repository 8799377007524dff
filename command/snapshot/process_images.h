/*
 * command/snapshot/process_images.h - the processes of a program as files, by CRIU.
 *
 * They keep their process ids, so each copy is in a PID namespace of its own. Pipes of the copy
 * replace those at their descriptors 0 to 2.
 */
#ifndef CK_COMMAND_SNAPSHOT_PROCESS_IMAGES_H
#define CK_COMMAND_SNAPSHOT_PROCESS_IMAGES_H

#include <sys/types.h>

#include "command/snapshot/pipes.h"

struct ckx_images {
	const char *folder; /* of CRIU's files */
	const char *log;
	unsigned long pipes[CKX_PIPES]; /* inode numbers of the program's descriptors */
};

/* May this user run CRIU here? -errno, printed in one line: what to install, or which right is
 * missing. */
int ckx_images_check(void);

/* Write the processes below @pid, which end. -errno, printed. */
int ckx_images_write(const struct ckx_images *images, pid_t pid);

/* The highest id of their processes and threads. */
pid_t ckx_images_highest(const struct ckx_images *images);

/* Make them again, as children of this process, with these ends of pipes: the id, or -errno,
 * printed. */
pid_t ckx_images_restore(const struct ckx_images *images, const int pipes[CKX_PIPES]);

#endif
