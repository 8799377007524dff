/*
 * server/session/nvml.h - the NVML library that the server uses, and functions for its handlers.
 *
 * A worker opens NVML on its client's first call. NVML's results are returned unchanged; a call
 * that does not reach NVML returns a suitable NVML error.
 */
#ifndef CK_SERVER_SESSION_NVML_H
#define CK_SERVER_SESSION_NVML_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/nvml.h"
#include "gen/nvml_server.h"

struct cks_request;

/* Set this process's client: its pid replaces the worker's in lists of processes. */
void cks_nvml_client(unsigned int pid, const char *application);

/* Is NVML open, with the function of @slot? If not, *@result is the error. */
bool cks_nvml_begin(void **slot, int *result);

/* Numbers for NVML's handles, from 1; a handle always gets the same number. */
bool cks_nvml_device_find(unsigned int id, nvmlDevice_t *device);
int cks_nvml_device_put(nvmlDevice_t device, unsigned int *id);

/* Allocate zeroed memory in *@room (part of the reply) for @count elements, or as many as a reply
 * can hold; returns that number; 0 and NULL for none. */
unsigned int cks_nvml_room(unsigned int count, size_t size, char **room);

/* The same, filled with @length bytes from the client; 0 if those are not whole elements. */
unsigned int cks_nvml_copy(const char *from, unsigned int length, size_t size, char **room);

/* Length of a text including its NUL. */
unsigned int cks_nvml_length(const char *text, unsigned int room);

/* Replace this worker's pid by the client's in @count elements that begin with a pid. */
void cks_nvml_pids(struct cks_request *q, char *list, unsigned int count, size_t size);

#endif
