/*
 * slurm/ledger.h - which job has which GPUs: a folder that all nodes see.
 *
 *     DIR/servers          the list of servers (pool.h)
 *     DIR/ADDRESS.tokens   the token file of each server
 *     DIR/jobs/NUMBER      the reservation of a job (record.h)
 *     DIR/lock             locked by flock(2) while one of these changes
 *
 * Slurm counts the GPUs and decides when a job starts; the ledger says which of them it has. Every
 * call returns 0 or -errno, with a message in @why.
 */
#ifndef CK_SLURM_LEDGER_H
#define CK_SLURM_LEDGER_H

#include "slurm/record.h"

/*
 * Reserve GPUs of one server for the job, and admit its token there. If the job has a reservation,
 * that stays. -EBUSY: enough GPUs exist, and other jobs have them. -ENODEV: no server has so many
 * of this type.
 */
int ck_slurm_ledger_take(const char *dir, const struct ck_slurm_want *want,
			 struct ck_slurm_why *why);

/* Leave a message in the place of a reservation, for the job's steps. */
int ck_slurm_ledger_refuse(const char *dir, uint32_t job, const struct ck_slurm_why *reason);

/* The reservation of the job. -ENOENT: it has none. */
int ck_slurm_ledger_find(const char *dir, uint32_t job, struct ck_slurm_record *record,
			 struct ck_slurm_why *why);

/* Remove token and reservation; *@record is what the job had. -ENOENT: it has none. */
int ck_slurm_ledger_release(const char *dir, uint32_t job, struct ck_slurm_record *record,
			    struct ck_slurm_why *why);

/* The numbers of the jobs with reservations; the caller frees *@jobs. */
int ck_slurm_ledger_jobs(const char *dir, uint32_t **jobs, size_t *count, struct ck_slurm_why *why);

#endif
