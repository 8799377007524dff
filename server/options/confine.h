/*
 * server/options/confine.h - the files that a worker may open (`--confine`): those that a driver
 * needs. By Landlock, which also keeps it from the memory of processes that are not confined with
 * it, and from sending them signals.
 */
#ifndef CK_SERVER_OPTIONS_CONFINE_H
#define CK_SERVER_OPTIONS_CONFINE_H

struct cks_options;

/* Is @folders a list of absolute paths with colons, or "none", and has the kernel Landlock?
 * -EINVAL: it is not; -ENOSYS: it has none. */
int cks_confine_check(const char *folders);

/* Confine this process for good, as @options say; nothing is done without --confine. It must have
 * one thread. -errno, logged. */
int cks_confine(const struct cks_options *options);

#endif
