/*
 * server/options/option_values.h - values of options: checked, and put into one member of
 * struct cks_options, or into the environment, which all processes of the server inherit.
 *
 * Each returns 0, or -EINVAL with the reason in @why, for a line that names the option. @value is
 * kept, not copied.
 */
#ifndef CK_SERVER_OPTIONS_OPTION_VALUES_H
#define CK_SERVER_OPTIONS_OPTION_VALUES_H

#include "server/policy/limits.h"

#define CK_OPTION_WHY CK_LIMIT_WHY

/* -EINVAL, with the reason in @why. */
int cks_option_wrong(char why[CK_OPTION_WHY], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Into the member @out, which is a const char * unless a comment names its type. A path means
 * the same in each process; devices are a list, or "none"; the size of the cache also goes
 * into the environment. */
int cks_option_text(const char *value, void *out, char why[CK_OPTION_WHY]);
int cks_option_path(const char *value, void *out, char why[CK_OPTION_WHY]);
int cks_option_devices(const char *value, void *out, char why[CK_OPTION_WHY]);
int cks_option_cache_size(const char *value, void *out, char why[CK_OPTION_WHY]);
int cks_option_flag(const char *value, void *out, char why[CK_OPTION_WHY]); /* bool */
int cks_option_mode(const char *value, void *out,
		    char why[CK_OPTION_WHY]); /* unsigned int, of a socket */
int cks_option_group(const char *value, void *out, char why[CK_OPTION_WHY]); /* long, its id */
int cks_option_sessions(const char *value, void *out,
			char why[CK_OPTION_WHY]); /* unsigned int, the most */
int cks_option_spares(const char *value, void *out,
		      char why[CK_OPTION_WHY]); /* int, of spare workers */

/* Into the environment; @out is not used. */
int cks_option_no_shm(const char *value, void *out, char why[CK_OPTION_WHY]);
int cks_option_sandbox(const char *value, void *out, char why[CK_OPTION_WHY]);
int cks_option_nccl(const char *value, void *out, char why[CK_OPTION_WHY]);
int cks_option_log(const char *value, void *out, char why[CK_OPTION_WHY]);
int cks_option_log_format(const char *value, void *out, char why[CK_OPTION_WHY]);

#endif
