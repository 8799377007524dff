/*
 * server/processes/gpu_room.h - is there room on the GPUs for a session that comes back?
 *
 * NVIDIA's driver (580) cannot repeat a cuCheckpointProcessRestore that has found too little
 * memory: it returns CUDA_ERROR_OPERATING_SYSTEM from then on. So a restore begins only when there
 * is room.
 */
#ifndef CK_SERVER_PROCESSES_GPU_ROOM_H
#define CK_SERVER_PROCESSES_GPU_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CK_ROOM_GPUS 16

/* Bytes of each GPU, in the order of NVML. */
/* Between two looks of a session that waits for room, while the others take no memory. */
#define CK_ROOM_PAUSE_MS 10

struct cks_gpu_room {
	unsigned int count; /* 0: NVML is not there */
	uint64_t bytes[CK_ROOM_GPUS];
};

/* The free memory. The driver is open (cks_driver_open). */
void cks_gpu_room_read(struct cks_gpu_room *room);
/* The memory of process @pid on each GPU, as NVML reports it. False: it reports no such process, as
 * in a container. */
bool cks_gpu_room_used(pid_t pid, struct cks_gpu_room *used);

/*
 * Put into @need the memory of a session of @bytes, which has left the GPUs between @before and
 * @after. Other programs may have changed their memory at the same time, so no GPU counts for much
 * more than @bytes, and all for no less.
 */
void cks_gpu_room_need(const struct cks_gpu_room *before, const struct cks_gpu_room *after,
		       uint64_t bytes, struct cks_gpu_room *need);

/* Add @bytes on the GPU whose UUID has @mark (device_map.h); where it takes most if none has. */
void cks_gpu_room_add(struct cks_gpu_room *need, uint32_t mark, uint64_t bytes);

/* Is there so much on each GPU? If not, @why says where. */
bool cks_gpu_room_suffices(const struct cks_gpu_room *room, const struct cks_gpu_room *need,
			   char *why, size_t size);

/* As words of an argument, and back. */
#define CK_ROOM_TEXT (CK_ROOM_GPUS * 21 + 1)
void cks_gpu_room_print(const struct cks_gpu_room *room, char text[CK_ROOM_TEXT]);
void cks_gpu_room_parse(const char *text, struct cks_gpu_room *room);

#endif
