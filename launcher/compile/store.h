/*
 * launcher/compile/store.h - gpu_launcher --cache and --compile: the kernel cache by hand.
 */
#ifndef CK_LAUNCHER_COMPILE_STORE_H
#define CK_LAUNCHER_COMPILE_STORE_H

#include "launcher/options/options.h"

/* Carry out options->cache_command; prints to stdout. Returns the exit code. */
int ckl_store_command(const struct ckl_options *options);

/*
 * Compile options->compile_path into the cache, and print one JSON object on stdout: the entry's
 * hash and the paths of source and PTX, or the error object. Returns the exit code.
 */
int ckl_store_compile(const struct ckl_options *options);

#endif
