/*
 * server/session/driver.h - the driver library under the server, opened by name.
 */
#ifndef CK_SERVER_SESSION_DRIVER_H
#define CK_SERVER_SESSION_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "gen/driver.h"

/*
 * Open @which ("cuda": libcuda.so.1; "emu": libcuda-emu.so beside this program, else where the
 * loader looks; else a path) and fill ck_driver. The library stays open for the process's life.
 * -ENOENT: it cannot be loaded; -ELIBBAD: it is no CUDA driver; @why (always set on an error)
 * says it in words.
 */
int ck_driver_open(const char *which, char *why, size_t size);

/* After ck_driver_open. No real GPU behind it. */
bool ck_driver_emulated(void);

/* Its handle, for dlsym; NULL before. */
void *ck_driver_library(void);

/* Whether it takes cubins, not PTX only. */
bool ck_driver_accepts_cubin(void);

/*
 * Try @which out: a driver must open; "auto" is "cuda" when libcuda.so.1 loads and finds a device,
 * else "emu". Loads drivers into this process, which should end soon. The driver to use, or NULL
 * when none works; @why says it in words.
 */
const char *ck_driver_probe(const char *which, char *why, size_t size);

/* The graph that @stream is being captured into; NULL: it is not being captured. */
CUgraph ck_capture_graph(CUstream stream);

#endif
