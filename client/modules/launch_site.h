/*
 * client/modules/launch_site.h - the line of a Python program that has launched a kernel, for a
 * report of its fault.
 *
 * With CUDA_LAUNCH_BLOCKING=1 the launch itself returns the error, so the program is still at that
 * line.
 */
#ifndef CK_CLIENT_MODULES_LAUNCH_SITE_H
#define CK_CLIENT_MODULES_LAUNCH_SITE_H

#include "cuda/types.h"

/* The calling thread's launch has returned @err: if a kernel has failed, and Python runs in this
 * process, say where the thread is. It waits for a second at most if other threads keep Python's
 * lock. */
void ckc_launch_site_report(CUresult err);

#endif
