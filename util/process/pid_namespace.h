/*
 * util/process/pid_namespace.h - PID namespaces: processes that CRIU makes again keep their ids
 * even where these are in use.
 *
 * A worker whose ids are taken, and each copy of a program, is restored in a PID namespace of its
 * own. There it has its old ids, and outside of it other ones. CRIU dumps a worker from inside of
 * that namespace.
 */
#ifndef CK_UTIL_PROCESS_PID_NAMESPACE_H
#define CK_UTIL_PROCESS_PID_NAMESPACE_H

#include <stdbool.h>
#include <sys/types.h>

/* Is process @pid in another PID namespace than the caller? */
bool ck_pid_namespace_is_other(pid_t pid);

/* The id that thread @thread of @pid has inside of its own namespace; -errno. */
pid_t ck_pid_namespace_inner(pid_t pid, pid_t thread);

/* Have the children of the caller belong to the namespaces of @pid. The caller must know no paths
 * that are not there. */
int ck_pid_namespace_join(pid_t pid);

/* Have the children of the caller belong to a new namespace; -errno. The first one is its init
 * process. @network: and the caller and them to a network of their own, where they can bind the
 * abstract sockets that others have bound. */
int ck_pid_namespace_create(bool network);

/* In that child: show its own processes in /proc, and give further processes ids above @id. */
int ck_pid_namespace_begin(pid_t id);

/* In that child: wait until it is alone. Its end would kill the other processes in the namespace,
 * such as CRIU during a dump. */
void ck_pid_namespace_wait(void);

/* The caller's id of the process that has @id in the namespace of process @init; -ESRCH. */
pid_t ck_pid_namespace_outer(pid_t init, pid_t id);

#endif
