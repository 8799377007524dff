/*
 * server/session/device_map.h - on which GPUs the devices of this process are, by their UUIDs.
 *
 * A session that was suspended may return to other GPUs (cuCheckpointProcessRestore with a map).
 * Its devices keep their numbers, and the client keeps its answers about them. All that depends on
 * the GPU itself, as quotas, NVML's numbers and the marks for the supervisor, follows the place
 * that is noted here. The driver is not asked again: it may answer with the old UUID or with the
 * new one.
 */
#ifndef CK_SERVER_SESSION_DEVICE_MAP_H
#define CK_SERVER_SESSION_DEVICE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#define CK_MAP_GPUS 16 /* GPUs of a machine, at most, for a move */

/* From which GPU to which; each is named once. */
struct cks_device_map {
	uint32_t count; /* 0: all stay where they are */
	struct cks_device_pair {
		unsigned char was[16], is[16]; /* UUIDs */
	} pairs[CK_MAP_GPUS];
};

/* The process's device @device has this UUID, as the driver says before any move. Later notes
 * change nothing. */
void cks_device_map_note(int device, const unsigned char uuid[16]);

/* The UUID of the GPU that it is on now. False: it has none, or the driver does not tell. */
bool cks_device_map_find(int device, unsigned char uuid[16]);

/* All devices have moved by @step; any thread may ask meanwhile. */
void cks_device_map_move(const struct cks_device_map *step);

/* Where a GPU's devices of this process went, all moves together; false: to no other. */
bool cks_device_map_now(const unsigned char uuid[16], unsigned char now[16]);

/* The reverse: the GPU whose devices of this process are now on @uuid. */
bool cks_device_map_before(const unsigned char uuid[16], unsigned char was[16]);

/* The number by which the supervisor knows a GPU: never 0. */
uint32_t cks_uuid_mark(const unsigned char uuid[16]);

#endif
