/*
 * util/nccl.h - where NCCL runs: CRICKET_NCCL.
 */
#ifndef CK_UTIL_NCCL_H
#define CK_UTIL_NCCL_H

/*
 * Does NCCL run in the workers? @word: workers, program or auto (NULL, empty); auto: with several
 * servers. @address is that of REMOTE_GPU_ADDRESS, or NULL. 0 or 1; -EINVAL: no such word.
 */
int ck_nccl_in_workers(const char *word, const char *address);

#endif
