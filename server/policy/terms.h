/*
 * server/policy/terms.h - what the policy file grants an identity (server/policy/policy.h).
 */
#ifndef CK_SERVER_POLICY_TERMS_H
#define CK_SERVER_POLICY_TERMS_H

#include <stdbool.h>
#include <stdint.h>

#define CK_TERMS_GPUS 128

/* Features that may be withheld. */
#define CK_FEATURE_M3 1u
#define CK_FEATURE_CHECKPOINT 2u
#define CK_FEATURES_ALL 3u

/* All that a session of the identity may have. Where nothing is set, the options of the server hold. */
struct cks_terms {
	uint32_t sessions;     /* at a time; 0: not set */
	uint32_t percent;      /* of each GPU's memory; 0: not set */
	uint32_t contexts;     /* of all sessions together; 0: not set */
	uint64_t m3_memory;    /* bytes of regions that they have made; 0: not set */
	uint64_t memory;       /* bytes on each GPU, for all sessions together; 0: not set */
	uint64_t memory_total; /* bytes on all GPUs together, likewise; 0: not set */
	uint64_t lanes, host_memory, output,
		cache;	    /* of a session; the last one of the identity; 0:
						     * as the server's options say */
	uint64_t bandwidth; /* bytes per second of a session, in each direction; 0: not set */
	uint64_t time;	    /* seconds that a session lasts; 0: not set */
	uint64_t idle_end;  /* seconds without use after which it ends; 0: not set */
	int64_t resume;	    /* seconds that a session outlives its connections; -1: not set */
	int64_t idle;	    /* seconds without use after which it leaves the GPU; -1: not set */
	int32_t priority;   /* the lowest leaves the GPU first; 0: not set */
	uint32_t weight;    /* of its sessions against others on a GPU */
	uint32_t features;  /* CK_FEATURE_... */
	bool nvml_own;	    /* NVML shows it the processes of its own sessions only */
	bool m3_own;	    /* it sees the names of its own M3 regions only */
	char gpus[CK_TERMS_GPUS]; /* as CUDA_VISIBLE_DEVICES; empty: not set */
};

/* Nothing is set. */
#define CK_TERMS_NONE                                                                              \
	((struct cks_terms){.resume = -1, .idle = -1, .weight = 1, .features = CK_FEATURES_ALL})

#endif
