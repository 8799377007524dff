/*
 * slurm/tokens.h - the tokens of jobs in the list that a server reads (--token-file). Lines of
 * others stay. The caller holds the ledger's lock.
 */
#ifndef CK_SLURM_TOKENS_H
#define CK_SLURM_TOKENS_H

#include "slurm/slurm.h"

/* 64 random hex digits. -EIO. */
int ck_slurm_token_new(char token[CK_SLURM_TOKEN]);

/* Append the line of @token, with this @name. -EFBIG: the server would not read a file of this
 * size. */
int ck_slurm_token_add(const char *path, const char *name, const char *token);

/* Remove it; 0 too if it is not there. */
int ck_slurm_token_remove(const char *path, const char *name, const char *token);

/* USER@slurm, or the number of the user if the server would refuse the name. */
void ck_slurm_token_name(uid_t uid, char name[CK_SLURM_NAME]);

#endif
