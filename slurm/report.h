/*
 * slurm/report.h - programs of a job have ended: its server learns that from the node, and keeps
 * none of their sessions.
 */
#ifndef CK_SLURM_REPORT_H
#define CK_SLURM_REPORT_H

#include <sys/types.h>

#include "slurm/record.h"
#include "slurm/settings.h"

#define CK_SLURM_REPORT_S 5

/*
 * Run `cricket reap` for the server of @record, as user @uid, with @variables of the job too
 * ("NAME=VALUE", then NULL), for CK_SLURM_REPORT_S seconds at most. Programs that still run keep
 * their sessions. 0 or -errno; -EIO: the command has failed.
 */
int ck_slurm_report(const struct ck_slurm_settings *settings, const struct ck_slurm_record *record,
		    uid_t uid, char *const variables[], struct ck_slurm_why *why);

#endif
