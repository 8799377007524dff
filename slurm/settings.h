/*
 * slurm/settings.h - the plugin's arguments in plugstack.conf.
 */
#ifndef CK_SLURM_SETTINGS_H
#define CK_SLURM_SETTINGS_H

#include "slurm/slurm.h"

struct ck_slurm_settings {
	char dir[CK_SLURM_PATH / 2];	 /* dir=: the ledger's folder, which all nodes see */
	char client[CK_SLURM_PATH / 2];	 /* client=: cricket-client.so on the compute nodes */
	char command[CK_SLURM_PATH / 2]; /* command=: cricket on the compute nodes */
	unsigned int wait;		 /* wait=: seconds that the prolog waits for free GPUs */
};

/* 0, or -EINVAL: an argument is unknown or wrong, or dir= is missing. */
int ck_slurm_settings_parse(int ac, char **av, struct ck_slurm_settings *settings,
			    struct ck_slurm_why *why);

#endif
