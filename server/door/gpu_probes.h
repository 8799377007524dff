/*
 * server/door/gpu_probes.h - the processes that look at the GPUs; for offers.c alone.
 */
#ifndef CK_SERVER_DOOR_GPU_PROBES_H
#define CK_SERVER_DOOR_GPU_PROBES_H

#include "server/door/offers.h"

/* A look at @gpus (CUDA_VISIBLE_DEVICES; empty: the server's own) that has ended in the last
 * moment, and began after @since (ms); *@note is valid until the next call. -EAGAIN: ask again in a
 * moment; -errno: no process can be started. */
int cks_gpu_probes_look(struct cks_offers *offers, const char *gpus, int64_t since,
			const struct cks_gpu_probe_note **note);

#endif
