/*
 * server/processes/sandbox.c - see sandbox.h.
 *
 * A list of refused calls, not of allowed ones: NVIDIA's driver does not document which calls it
 * makes, and its next release may make others. CRIU writes the filters of a process and restores
 * them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/processes/sandbox.h"
#include "util/env.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

/* The kernel itself, and calls for its administrator only. */
static const char *const administration[] = {
	"acct",
	"adjtimex",
	"bpf",
	"clock_adjtime",
	"clock_settime",
	"create_module",
	"delete_module",
	"fanotify_init",
	"finit_module",
	"init_module",
	"ioperm",
	"iopl",
	"kexec_file_load",
	"kexec_load",
	"lookup_dcookie",
	"nfsservctl",
	"perf_event_open",
	"query_module",
	"quotactl",
	"quotactl_fd",
	"reboot",
	"sethostname",
	"setdomainname",
	"settimeofday",
	"swapoff",
	"swapon",
	"sysfs",
	"syslog",
	"uselib",
	"userfaultfd",
	"ustat",
	"vhangup",
	"vm86",
	"add_key",
	"keyctl",
	"request_key",
	"io_uring_setup",
	"io_uring_enter",
	"io_uring_register",
};

/* Another view of the file system, other namespaces. */
static const char *const views[] = {
	"chroot",
	"fsconfig",
	"fsmount",
	"fsopen",
	"fspick",
	"mount",
	"mount_setattr",
	"move_mount",
	"name_to_handle_at",
	"open_by_handle_at",
	"open_tree",
	"pivot_root",
	"setns",
	"umount",
	"umount2",
	"unshare",
};

/* Memory and descriptors of other processes. */
static const char *const others[] = {
	"kcmp",
	"pidfd_getfd",
	"process_madvise",
	"process_mrelease",
	"process_vm_readv",
	"process_vm_writev",
	"ptrace",
};

static const char *const programs[] = {"execve", "execveat"};

/* Calls that send a signal, and which of their arguments are the process and the signal. */
static const struct {
	const char *name;
	unsigned int process, signal;
} signals[] = {
	{"kill", 0, 1},
	{"tgkill", 0, 2},
	{"rt_sigqueueinfo", 0, 1},
	{"rt_tgsigqueueinfo", 0, 2},
};

static const char *const words[] = {"auto", "on", "log", "off"};

int cks_sandbox_check(const char *word)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(words); i++) {
		if (strcmp(word, words[i]) == 0)
			return 0;
	}
	return -EINVAL;
}

/* The library need not know every name: some are of newer or older kernels. */
static int refuse_call(scmp_filter_ctx filter, uint32_t action, const char *name)
{
	int number = seccomp_syscall_resolve_name(name);

	return number < 0 ? 0 : seccomp_rule_add(filter, action, number, 0);
}

static int refuse_all(scmp_filter_ctx filter, uint32_t action, const char *const *names,
		      size_t count)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = refuse_call(filter, action, names[i]);
	return ret;
}

/* New user namespaces give rights over what they contain. A filter cannot read the flags of clone3;
 * without it the C library uses clone. */
static int refuse_namespaces(scmp_filter_ctx filter, uint32_t action)
{
	static const int flags[] = {CLONE_NEWUSER, CLONE_NEWNS,	 CLONE_NEWPID,	 CLONE_NEWNET,
				    CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};
	int number = seccomp_syscall_resolve_name("clone3"), ret = 0;

	if (number >= 0 && action != SCMP_ACT_LOG)
		ret = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), number, 0);
	for (size_t i = 0; ret == 0 && i < CK_ARRAY_SIZE(flags); i++)
		ret = seccomp_rule_add(filter, action, SCMP_SYS(clone), 1,
				       SCMP_A0(SCMP_CMP_MASKED_EQ, (scmp_datum_t)flags[i],
					       (scmp_datum_t)flags[i]));
	return ret;
}

/* All workers have the same user, and could end one another. Signal 0 asks whether a process
 * exists. */
static int refuse_signals(scmp_filter_ctx filter, uint32_t action)
{
	struct scmp_arg_cmp process = {.op = SCMP_CMP_NE, .datum_a = (scmp_datum_t)getpid()};
	struct scmp_arg_cmp signal = {.op = SCMP_CMP_NE, .datum_a = 0};
	int ret = refuse_call(filter, action, "pidfd_send_signal");

	if (ret == 0)
		ret = refuse_call(filter, action, "tkill");
	for (size_t i = 0; ret == 0 && i < CK_ARRAY_SIZE(signals); i++) {
		process.arg = signals[i].process;
		signal.arg = signals[i].signal;
		ret = seccomp_rule_add(filter, action,
				       seccomp_syscall_resolve_name(signals[i].name), 2, process,
				       signal);
	}
	return ret;
}

static int fill_filter(scmp_filter_ctx filter, uint32_t action, enum cks_sandbox kind)
{
	int ret;

	if (kind == CK_SANDBOX_SESSION)
		return refuse_all(filter, action, programs, CK_ARRAY_SIZE(programs));
	ret = refuse_all(filter, action, administration, CK_ARRAY_SIZE(administration));
	if (ret == 0)
		ret = refuse_all(filter, action, views, CK_ARRAY_SIZE(views));
	if (ret == 0)
		ret = refuse_all(filter, action, others, CK_ARRAY_SIZE(others));
	if (ret == 0)
		ret = refuse_namespaces(filter, action);
	if (ret == 0 && kind == CK_SANDBOX_WORKER)
		ret = refuse_signals(filter, action);
	return ret;
}

/* Threads that exist get the filter too. Without SSB, kernels before 5.16 make all loads of the
 * process slower. A tree is searched faster than a list. Old libraries go on without these two. */
static int install_filter(uint32_t action, enum cks_sandbox kind)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int ret;

	if (!filter)
		return -ENOMEM;
	seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, action);
	seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
	ret = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (ret == 0)
		ret = fill_filter(filter, action, kind);
	if (ret == 0)
		ret = seccomp_load(filter);
	seccomp_release(filter);
	return ret;
}

int cks_sandbox_enter(enum cks_sandbox kind)
{
	static const struct rlimit no_core;
	const char *word = ck_env_string("CRICKET_SANDBOX");
	bool must = strcmp(word, "on") == 0;
	int ret;

	if (strcmp(word, "off") == 0)
		return 0;
	/* the memory of a session is not for files of the host */
	setrlimit(RLIMIT_CORE, &no_core);
	ret = install_filter(strcmp(word, "log") == 0 ? SCMP_ACT_LOG : SCMP_ACT_ERRNO(EPERM), kind);
	if (ret < 0 && must)
		ck_err("no filter of system calls: %s; --sandbox off starts without",
		       strerror(-ret));
	else if (ret < 0)
		ck_warn("no filter of system calls on this kernel: %s (--sandbox)", strerror(-ret));
	return must ? ret : 0;
}
