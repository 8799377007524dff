/*
 * client/old_launch.h - launches as they were before CUDA 4.
 */
#ifndef CK_CLIENT_OLD_LAUNCH_H
#define CK_CLIENT_OLD_LAUNCH_H

struct ck_function;

/* The function goes; what was set on it too. */
void ck_old_launch_forget(const struct ck_function *function);

#endif
