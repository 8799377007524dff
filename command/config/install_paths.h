/*
 * command/config/install_paths.h - where the client library, the server and the user's files are.
 */
#ifndef CK_COMMAND_CONFIG_INSTALL_PATHS_H
#define CK_COMMAND_CONFIG_INSTALL_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define CKX_PATH 4096

/* The folder with cricket-client.so: that of this program, or else where it is installed. -ENOENT,
 * printed. */
int ckx_install_path_library(char out[CKX_PATH]);

/* Can the dynamic linker load the client from this folder, by variables? */
bool ckx_install_path_loads(const char *folder);
#define CKX_NOT_LOADED                                                                             \
	"the dynamic linker does not accept a path with spaces or colons: install the client "     \
	"elsewhere"

/* The server, in a folder like that, with the emulated GPU beside it. -ENOENT, printed. */
int ckx_install_path_server(char out[CKX_PATH]);

/* Where a container has that folder. */
#define CKX_CONTAINER_LIBRARY "/opt/cricket/lib/cricket"

/* The user's file @name: in $XDG_CONFIG_HOME/cricket, else ~/.config/cricket. -ENOENT: the user has
 * no home; nothing is printed. */
int ckx_install_path_own(const char *name, char out[CKX_PATH]);

/* The same, and make its folder, for this user only. -errno, printed. */
int ckx_install_path_own_folder(const char *name, char out[CKX_PATH]);

/* Make the folder @path, with all folders above it, with this mode. -errno. */
int ckx_install_path_make(const char *path, mode_t mode);

#define CKX_SYSTEM_CONFIG "/etc/cricket/client.conf"

#endif
