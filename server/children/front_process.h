/*
 * server/children/front_process.h - the front process, which speaks TLS (server/front/).
 */
#ifndef CK_SERVER_CHILDREN_FRONT_PROCESS_H
#define CK_SERVER_CHILDREN_FRONT_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

struct cks_front_process;
struct cks_options;

/* Start it, and wait until it has read its files; *@fronts is NULL if @options have no certificate.
 * -errno, logged. After an upgrade there is no wait: the files were right before. */
int cks_front_process_create(const struct cks_options *options, struct cks_front_process **fronts);
int cks_front_process_resume(const struct cks_options *options, struct cks_front_process **fronts);
/* accepts NULL, as all below do */
void cks_front_process_destroy(struct cks_front_process *fronts);

/* Pass a connection to it: the decrypted bytes come over *@plain. The caller closes @fd. -EAGAIN:
 * later; -errno. */
int cks_front_process_pass(struct cks_front_process *fronts, int fd, int *plain);

/* Have it read certificate and key again, and wait for its answer, which takes as long as reading
 * them. -errno, logged by it: the earlier ones stay in use; @why is the reason. */
#define CK_FRONT_WORDS 512
int cks_front_process_reload(struct cks_front_process *fronts, char why[CK_FRONT_WORDS]);
bool cks_front_process_ended(struct cks_front_process *fronts, pid_t pid,
			     int status); /* false: another process */

#endif
