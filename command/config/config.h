/*
 * command/config/config.h - the configuration files: named servers, and the one to use by default.
 *
 *     server = lab                 # used unless another is named
 *
 *     [lab]
 *     address = gpuhost:9909       # as in REMOTE_GPU_ADDRESS
 *     devices = 0,1                # as --devices
 *     token-file = /etc/cricket/lab.token
 *     tls-pin = sha256:...         # and the others of tls.h
 *
 * The user's file comes before the system's: it may name a default of its own, and its section of a
 * server replaces the system's section of that name.
 */
#ifndef CK_COMMAND_CONFIG_CONFIG_H
#define CK_COMMAND_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "command/config/tls.h"

#define CKX_TEXT 256
#define CKX_SERVERS 64

struct ckx_entry {
	char name[CKX_TEXT], address[CKX_TEXT], devices[CKX_TEXT], token_file[CKX_TEXT];
	struct ckx_tls tls;
	const char *file; /* which of the two; belongs to the configuration */
};

struct ckx_config {
	char chosen[CKX_TEXT]; /* by `server =`; empty: none */
	struct ckx_entry servers[CKX_SERVERS];
	size_t count;
	char own[4096]; /* path of the user's file; empty: none */
};

/* Read both files; one that is not there is empty. -EINVAL: a line that means nothing, printed. */
int ckx_config_read(struct ckx_config *config);

#define CKX_DEVICES "numbers of GPUs, as in 0,2, or none"

/* Is @value what `devices` and --devices take? */
bool ckx_config_takes_devices(const char *value);

/* The server called @name, in any case if none is called exactly so; or NULL. */
const struct ckx_entry *ckx_config_find(const struct ckx_config *config, const char *name);
/* The first server with this @address, in any spelling, or NULL. */
const struct ckx_entry *ckx_config_find_address(const struct ckx_config *config,
						const char *address);

/* Write what @entry says into its section of the user's file, which is made if it is missing. Its
 * other lines stay as they are. -errno, printed. */
int ckx_config_keep(const struct ckx_entry *entry);

#endif
