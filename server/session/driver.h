/*
 * server/session/driver.h - the driver library that the server uses, opened by name.
 */
#ifndef CK_SERVER_SESSION_DRIVER_H
#define CK_SERVER_SESSION_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gen/driver.h"

/*
 * Open @which ("cuda": libcuda.so.1; "emu": libcuda-emu.so beside this program, else in the
 * loader's search path; else a path) and fill ck_driver. The library stays open for the life of the
 * process. -ENOENT: it cannot be loaded; -ELIBBAD: it is no CUDA driver. On an error, @why is the
 * reason as text.
 */
int cks_driver_open(const char *which, char *why, size_t size);

/* Is there no real GPU? Call after cks_driver_open. */
bool cks_driver_emulated(void);

/* The file of the library: another one may answer differently. False: it is not known. */
struct cks_driver_file {
	uint64_t size, changed_s, changed_ns;
};
bool cks_driver_file(struct cks_driver_file *file);

/* Its handle for dlsym; NULL before cks_driver_open. */
void *cks_driver_library(void);

/* Does it accept cubins, not only PTX? */
bool cks_driver_accepts_cubin(void);

/*
 * Check which driver opens: "auto" is "cuda" if libcuda.so.1 loads and finds a device, else "emu".
 * Loads drivers into this process, which should end soon. Returns the driver to use, or NULL if
 * none works; @why is the reason as text.
 */
const char *cks_driver_probe(const char *which, char *why, size_t size);

/*
 * After that: the UUIDs of the GPUs that CUDA_VISIBLE_DEVICES leaves, in the driver's order,
 * separated by commas; "none". Empty: the variable is not set, so that all of the machine's are
 * left, or the driver does not name them. A part of a GPU (MIG) has the UUID of the whole.
 */
#define CK_DRIVER_GPUS (64 * 41)
void cks_driver_gpus(char list[CK_DRIVER_GPUS]);

/* The graph of @stream's capture; NULL: it is not being captured. */
CUgraph cks_capture_graph(CUstream stream);

#endif
