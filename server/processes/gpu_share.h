/*
 * server/processes/gpu_share.h - a session's part in the sharing of GPUs by weight, as the
 * supervisor keeps it (server/rules/fair_share.h).
 */
#ifndef CK_SERVER_PROCESSES_GPU_SHARE_H
#define CK_SERVER_PROCESSES_GPU_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct cks_share {
	uint64_t gpus;	 /* bits of the GPUs that it has contexts on; 0: none known */
	uint32_t weight; /* of its identity, */
	int priority;	 /* and that */
	uint32_t group;	 /* its sessions use a GPU at the same time; 0: none */
	bool active;	 /* it has used the GPU lately */
	bool held;	 /* its worker waits for turns */
	bool wants;	 /* a turn */
	bool below;	 /* one of higher priority uses a GPU of it: launches wait */
	/* one of lower priority uses one: its turns end soon when it is quiet */
	bool above;
	bool running;	      /* it has one, */
	uint32_t serial;      /* with this number, */
	uint32_t window_us;   /* and may submit work for so long, */
	bool stopped;	      /* unless one of higher priority has asked since */
	uint32_t quiet_us;    /* it ends early after this time without messages; 0: the usual one */
	bool eager;	      /* it had more to do when its last turn ended, */
	int32_t lag_us;	      /* after which it asks again, in the mean */
	int64_t since, ended; /* which began and ended then; in us */
	uint64_t passed;      /* us of its turns, scaled by weight: who has least is next, */
	uint64_t begun;	      /* as they were when its latest turn began */
	bool came;	      /* it has begun to want a turn */
};

#endif
