/*
 * slurm/reserve.h - what happens at the begin of a job: a reservation, also where others' jobs are
 * still ending.
 */
#ifndef CK_SLURM_RESERVE_H
#define CK_SLURM_RESERVE_H

#include "slurm/settings.h"

/*
 * As ck_slurm_ledger_take; while other jobs have the GPUs, try again, for settings->wait seconds.
 * Slurm gives a job's licences on before its epilog has run; reservations of jobs whose node has
 * crashed are removed.
 */
int ck_slurm_reserve(const struct ck_slurm_settings *settings, const struct ck_slurm_want *want,
		     struct ck_slurm_why *why);

/*
 * Remove the reservations of jobs that squeue does not list. 0 or -errno; -EIO: squeue failed, and
 * nothing was removed.
 */
int ck_slurm_reap(const char *dir, struct ck_slurm_why *why);

#endif
