/*
 * slurm/pool.h - the list of servers, a file of the site: on each line an address, a type and a
 * number of GPUs.
 *
 *     # comment
 *     gpu1:9909 h200 8
 */
#ifndef CK_SLURM_POOL_H
#define CK_SLURM_POOL_H

#include "slurm/slurm.h"

#define CK_SLURM_SERVERS 256

struct ck_slurm_server {
	char address[CK_SLURM_ADDRESS];
	char type[CK_SLURM_TYPE];
	unsigned int gpus;
};

struct ck_slurm_pool {
	struct ck_slurm_server servers[CK_SLURM_SERVERS];
	unsigned int count;
};

/* 0, or -EINVAL with a message that names the line. */
int ck_slurm_pool_parse(const char *text, struct ck_slurm_pool *pool, struct ck_slurm_why *why);

/* Is @address one that may be in the list? It is a part of a file's name too. */
int ck_slurm_address_parse(const char *text, char address[CK_SLURM_ADDRESS]);

#endif
