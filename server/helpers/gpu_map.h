/*
 * server/helpers/gpu_map.h - the GPUs to which a session returns, by a command's request, the
 * policy, and the models of GPUs.
 *
 * The driver wants to know of every GPU of the machine where its share of a process goes
 * (cuCheckpointProcessRestore). So GPUs that are not named exchange their places with those that
 * are.
 */
#ifndef CK_SERVER_HELPERS_GPU_MAP_H
#define CK_SERVER_HELPERS_GPU_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/checkpoint/failure_text.h"
#include "server/checkpoint/manifest.h"
#include "server/processes/messages.h"
#include "server/session/device_map.h"

/* All GPUs of this machine: first those of the server, in the order of its numbers. */
struct cks_machine {
	size_t count, visible; /* of these, the server's */
	struct cks_machine_gpu {
		unsigned char uuid[16];
		char name[CK_MANIFEST_TEXT];
		bool allowed; /* to the session */
		int ordinal;  /* of the driver without CUDA_VISIBLE_DEVICES */
	} gpus[CK_MAP_GPUS];
};

/* Fill it in from @all, of which the server has @visible, and the session may use @allowed.
 * -ERANGE: too many. */
int cks_machine_fill(struct cks_machine *machine, const struct cks_manifest_gpu *all,
		     const struct cks_manifest_gpu *visible, const struct cks_manifest_gpu *allowed,
		     struct cks_why *why);

/* Where each GPU of the machine that the session left has its new place. */
struct cks_gpu_plan {
	bool arrives; /* from another server */
	size_t count;
	unsigned char there[CK_MAP_GPUS][16];
	bool used[CK_MAP_GPUS]; /* by contexts of the session */
	int goal[CK_MAP_GPUS];	/* an index in struct cks_machine */
};

/* A session's GPUs so far, and the request. */
struct cks_gpu_wish {
	const char *there;     /* UUIDs of the GPUs of the machine that it left; "": of this one */
	const uint32_t *marks; /* CK_NOTE_GPUS of them: GPUs that it has contexts on */
	const char *goal;      /* "1": its one GPU is to be GPU 1; "0=1,1=0"; "": none */
};

/* Plan it. -EINVAL, -EACCES, -EXDEV: it cannot be, @why says so. */
int cks_gpu_plan_make(const struct cks_machine *here, const struct cks_gpu_wish *wish,
		      struct cks_gpu_plan *plan, struct cks_why *why);

/* The plan for the driver; its count is 0 if all stay where they are. */
void cks_gpu_plan_fill_map(const struct cks_gpu_plan *plan, const struct cks_machine *here,
			   struct cks_device_map *map);

/* The number of the one GPU that the session uses then; -1: it uses several, or none, or it is not
 * the server's. */
int cks_gpu_plan_place(const struct cks_gpu_plan *plan, const struct cks_machine *here);

#endif
