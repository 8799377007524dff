/*
 * server/nvml/nvml.h - the NVML library that the server uses, and functions for its handlers.
 *
 * A worker opens NVML on its client's first call. NVML's results are returned unchanged; a call
 * that does not reach NVML returns a suitable NVML error.
 */
#ifndef CK_SERVER_NVML_NVML_H
#define CK_SERVER_NVML_NVML_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/nvml.h"
#include "gen/nvml_server.h"

struct cks_request;

/* Set this process's client: its pid replaces the worker's in lists of processes. */
void cks_nvml_client(unsigned int pid, const char *application);

/* Is NVML open, with the function of @slot? If not, *@result is the error. */
bool cks_nvml_begin(void **slot, int *result);

/*
 * Numbers for NVML's handles, from 1; a handle always gets the same number. If the session has
 * moved to another GPU, the program's handle stands for that one (device_map.h). Only who it is, it
 * says of itself: cks_nvml_device_itself.
 */
bool cks_nvml_device_find(unsigned int id, nvmlDevice_t *device);
bool cks_nvml_device_itself(unsigned int id, nvmlDevice_t *device);
int cks_nvml_device_put(nvmlDevice_t device, unsigned int *id);

/* Allocate zeroed memory in *@room (part of the reply) for @count elements, or as many as a reply
 * can hold; returns that number; 0 and NULL for none. */
unsigned int cks_nvml_room(unsigned int count, size_t size, char **room);

/* The same, filled with @length bytes from the client; 0 if those are not whole elements. */
unsigned int cks_nvml_copy(const char *from, unsigned int length, size_t size, char **room);

/* Length of a text including its NUL. */
unsigned int cks_nvml_length(const char *text, unsigned int room);

/* The client sees those processes only for which @own says yes. NULL: all. */
void cks_nvml_narrow(bool (*own)(unsigned int pid));
bool cks_nvml_is_narrow(void);

/* A reply that is a list of elements of @size bytes, each of which begins with a pid. */
struct cks_nvml_pids {
	char *list; /* with @room elements; the client has room for @asked */
	size_t size;
	unsigned int room, asked;
	int *result;	      /* of NVML */
	unsigned int *count;  /* of elements, by NVML */
	unsigned int *length; /* in bytes, of the reply */
};

/* As cks_nvml_room; more, if elements may have to be left out. */
unsigned int cks_nvml_pids_room(unsigned int count, size_t size, char **room);
/* Leave out processes that the client may not see, replace this worker's pid by the client's, and
 * set the length. */
void cks_nvml_pids(const struct cks_nvml_pids *reply);

/* --- NVML's handles of CUDA's devices (nvml_device.c) */

/*
 * NVML's handle of CUDA's device @ordinal: by its UUID, which a part of a GPU (MIG) has too, else
 * by its PCI address. NVML numbers devices in its own way. 0, or an nvmlReturn_t.
 */
int cks_nvml_of_device(int ordinal, nvmlDevice_t *device);

#endif
