/*
 * rpc/companion/start.h - the process of a companion; see companion.h.
 */
#ifndef CK_RPC_COMPANION_START_H
#define CK_RPC_COMPANION_START_H

#include <stddef.h>

#include "util/address/address.h"
#include "util/process/private_fds.h"

/* Make a folder for a companion, which only this user can open. -errno. */
int ck_companion_folder(char *folder, size_t size);

/*
 * Start the program for @address, of a kind that needs one. It is to make the socket "sock" in
 * @folder, and its messages go to the file "log" there; the folder is removed when it has ended.
 * The caller closes both descriptors: the companion ends when the last copy of @lifeline is closed,
 * and @sign is readable once the program has ended. -errno: both hold none.
 */
int ck_companion_start(const struct ck_address *address, const char *folder,
		       struct ck_private_fd *lifeline, struct ck_private_fd *sign);

#endif
