/*
 * server/checkpoint/pid_namespace.h - PID namespaces: a worker keeps its process ids even where
 * they are in use.
 *
 * A worker whose ids are taken is restored in a PID namespace of its own. There it has its old ids,
 * and outside of it other ones. CRIU dumps it from inside of that namespace.
 */
#ifndef CK_SERVER_CHECKPOINT_PID_NAMESPACE_H
#define CK_SERVER_CHECKPOINT_PID_NAMESPACE_H

#include <stdbool.h>
#include <sys/types.h>

/* Is process @pid in another PID namespace than the caller? */
bool cks_pid_namespace_is_other(pid_t pid);

/* The id that thread @thread of @pid has inside of its own namespace; -errno. */
pid_t cks_pid_namespace_inner(pid_t pid, pid_t thread);

/* Have the children of the caller belong to the namespaces of @pid. The caller must know no paths
 * that are not there. */
int cks_pid_namespace_join(pid_t pid);

/* Have the children of the caller belong to a new namespace; -errno. The first one is its init
 * process. */
int cks_pid_namespace_create(void);

/* In that child: show its own processes in /proc, and give further processes ids above @id. */
int cks_pid_namespace_begin(pid_t id);

/* In that child: wait until it is alone. Its end would kill the other processes in the namespace,
 * such as CRIU during a dump. */
void cks_pid_namespace_wait(void);

/* The caller's id of the process that has @id in the namespace of process @init; -ESRCH. */
pid_t cks_pid_namespace_outer(pid_t init, pid_t id);

#endif
