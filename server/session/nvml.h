/*
 * server/session/nvml.h - the management library under the server, and what its handlers ask for.
 *
 * A worker opens NVML when its client first asks something. What NVML says goes into the reply as
 * it is; a call that does not come so far has one of NVML's errors of its own.
 */
#ifndef CK_SERVER_SESSION_NVML_H
#define CK_SERVER_SESSION_NVML_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/nvml.h"
#include "gen/nvml_server.h"

struct ck_request;

/* For this process's client: its pid stands for the worker's in lists of processes. */
void ck_nvml_client(unsigned int pid, const char *application);

/* Is NVML open, and has it the function behind @slot? Else *@result says why not. */
bool ck_nvml_begin(void **slot, int *result);

/* Numbers for NVML's handles, from 1; the same handle always gets the same. */
bool ck_nvml_device_find(unsigned int id, nvmlDevice_t *device);
int ck_nvml_device_put(nvmlDevice_t device, unsigned int *id);

/* Zeroed room for @count elements, or for as many as a reply holds, in *@room (part of the reply):
 * that number; 0 and NULL for none. */
unsigned int ck_nvml_room(unsigned int count, size_t size, char **room);

/* The same filled with @length bytes from the client, which are whole elements, else 0. */
unsigned int ck_nvml_copy(const char *from, unsigned int length, size_t size, char **room);

/* Length of a text with its end. */
unsigned int ck_nvml_length(const char *text, unsigned int room);

/* This worker's pid becomes the client's in @count elements that begin with one. */
void ck_nvml_pids(struct ck_request *q, char *list, unsigned int count, size_t size);

#endif
