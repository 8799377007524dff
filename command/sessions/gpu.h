/*
 * command/sessions/gpu.h - the GPUs of this host, from NVML: memory, utilisation, and which
 * sessions use them.
 *
 * NVML is the machine's own, or the emulated driver's for a server with --driver emu; never that of
 * the client library, which would ask a server.
 */
#ifndef CK_COMMAND_SESSIONS_GPU_H
#define CK_COMMAND_SESSIONS_GPU_H

#include <jansson.h>

#define CKX_GPUS 64

struct ckx_gpus;

/* For the server of @report. It may set variables of the environment, so the first time is before
 * other threads begin. NULL: this host has no NVML, and GPUs are not shown. */
struct ckx_gpus *ckx_gpus_open(const json_t *report);
void ckx_gpus_close(struct ckx_gpus *gpus); /* accepts NULL */

/*
 * Add to @report "gpus", those that its server serves ("served", in its order), and others that its
 * sessions use: a list of index, name, memory, used (bytes) and, unless the driver does not tell
 * it, utilization (0 to 1). And to each session "gpus": a list of index, memory, and share: the
 * part of the time since the last call in which its kernels ran. @gpus may be NULL: nothing is
 * added.
 */
void ckx_gpus_add(struct ckx_gpus *gpus, json_t *report);

#endif
