/*
 * slurm/record.h - the reservation of a job, a file that is named by the job's number: lines
 * NAME=VALUE. It has the job's token, so only root can read it.
 */
#ifndef CK_SLURM_RECORD_H
#define CK_SLURM_RECORD_H

#include <stdint.h>

#include "slurm/slurm.h"

struct ck_slurm_record {
	char server[CK_SLURM_ADDRESS]; /* empty: none, and .error says why */
	char type[CK_SLURM_TYPE];
	uint64_t gpus; /* a bit for each */
	char token[CK_SLURM_TOKEN];
	char name[CK_SLURM_NAME]; /* of the token */
	int64_t start;		  /* time(2) */
	char error[CK_SLURM_WHY];
};

/* The text; size without the NUL. It always fits. */
#define CK_SLURM_RECORD_TEXT 1024
size_t ck_slurm_record_print(const struct ck_slurm_record *record, char text[CK_SLURM_RECORD_TEXT]);

/* 0 or -EINVAL: not a record. */
int ck_slurm_record_parse(const char *text, struct ck_slurm_record *record);

/* The numbers of the GPUs, with commas, as in CUDA_VISIBLE_DEVICES. */
#define CK_SLURM_LIST (3 * CK_SLURM_GPUS)
void ck_slurm_gpus_print(uint64_t gpus, char list[CK_SLURM_LIST]);

#endif
