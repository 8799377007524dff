/*
 * server/nvml/nvml.c - load libnvidia-ml.so.1, or the emulated driver's NVML; handles, lists,
 * processes.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cricket.h"
#include "server/nvml/nvml.h"
#include "server/session/device_map.h"
#include "server/session/driver.h"
#include "server/session/locks.h"
#include "util/log.h"
#include "util/util.h"
#include "util/uuid.h"

CK_LOG_DEFINE("server");

#define MAX_HANDLES 1023
#define MAX_PROCESSES 4096 /* on a device, of which some are left out */

static struct {
	struct ck_mutex lock;
	pthread_once_t once;
	int result; /* result of opening it: an nvmlReturn_t */
	nvmlDevice_t handles[MAX_HANDLES];
	char uuids[MAX_HANDLES][CK_UUID_TEXT]; /* of these, when they were new; "": not known */
	unsigned int count;
	unsigned int client_pid;
	char application[257];
	bool (*own)(unsigned int pid); /* processes that the client may see; NULL: all */
} state = {.lock = CK_MUTEX(CK_RANK_NVML), .once = PTHREAD_ONCE_INIT};

void cks_nvml_client(unsigned int pid, const char *application)
{
	state.client_pid = pid;
	strncpy(state.application, application, sizeof(state.application) - 1);
}

static void open_library(void)
{
	void *library = cks_driver_emulated() ? cks_driver_library()
					      : dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	nvmlReturn_t (*init)(void);

	state.result = NVML_ERROR_LIBRARY_NOT_FOUND;
	if (!library) {
		ck_warn("a client asks for NVML: %s", dlerror());
		return;
	}
	for (const struct ck_nvml_symbol *s = ck_nvml_symbols; s->name; s++)
		*s->slot = dlsym(library, s->name);
	*(void **)&init = dlsym(library, "nvmlInit_v2");
	if (init)
		state.result = (int)init();
	if (state.result)
		ck_warn("a client asks for NVML: nvmlInit_v2 returns %d", state.result);
}

bool cks_nvml_begin(void **slot, int *result)
{
	pthread_once(&state.once, open_library);
	*result = state.result;
	if (!state.result && !*slot)
		*result = cks_driver_emulated() ? NVML_ERROR_NOT_SUPPORTED
						: NVML_ERROR_FUNCTION_NOT_FOUND;
	return *result == NVML_SUCCESS;
}

bool cks_nvml_device_itself(unsigned int id, nvmlDevice_t *device)
{
	bool found;

	ck_lock(&state.lock);
	found = id >= 1 && id <= state.count;
	if (found)
		*device = state.handles[id - 1];
	ck_unlock(&state.lock);
	return found;
}

bool cks_nvml_device_find(unsigned int id, nvmlDevice_t *device)
{
	unsigned char uuid[16], now[16];
	char text[CK_UUID_TEXT];
	nvmlDevice_t other;

	if (!cks_nvml_device_itself(id, device))
		return false;
	/* a text is written before its handle is counted */
	if (!ck_uuid_parse(state.uuids[id - 1], uuid) || !cks_device_map_now(uuid, now))
		return true;
	ck_uuid_print(now, text);
	if (ck_nvml.nvmlDeviceGetHandleByUUID && !ck_nvml.nvmlDeviceGetHandleByUUID(text, &other))
		*device = other;
	return true;
}

/* Call with the lock held. */
static void add_device(nvmlDevice_t device)
{
	char *uuid = state.uuids[state.count];

	state.handles[state.count] = device;
	if (!ck_nvml.nvmlDeviceGetUUID || ck_nvml.nvmlDeviceGetUUID(device, uuid, CK_UUID_TEXT))
		uuid[0] = '\0';
	state.count++;
}

int cks_nvml_device_put(nvmlDevice_t device, unsigned int *id)
{
	int ret = NVML_SUCCESS;
	unsigned int i = 0;

	ck_lock(&state.lock);
	while (i < state.count && state.handles[i] != device)
		i++;
	if (i == MAX_HANDLES)
		ret = NVML_ERROR_INSUFFICIENT_RESOURCES;
	else if (i == state.count)
		add_device(device);
	ck_unlock(&state.lock);
	*id = i + 1;
	return ret;
}

unsigned int cks_nvml_room(unsigned int count, size_t size, char **room)
{
	count = (unsigned int)ck_min((size_t)count, CK_BYTES_MAX / size);
	*room = count > 0 ? calloc(count, size) : NULL;
	return *room ? count : 0;
}

unsigned int cks_nvml_copy(const char *from, unsigned int length, size_t size, char **room)
{
	unsigned int count = length % size ? 0 : (unsigned int)(length / size);

	count = cks_nvml_room(count, size, room);
	if (count > 0)
		memcpy(*room, from, count * size);
	return count;
}

unsigned int cks_nvml_length(const char *text, unsigned int room)
{
	return room > 0 ? (unsigned int)strnlen(text, room - 1) + 1 : 0;
}

void cks_nvml_narrow(bool (*own)(unsigned int pid))
{
	state.own = own;
}

bool cks_nvml_is_narrow(void)
{
	return state.own != NULL;
}

unsigned int cks_nvml_pids_room(unsigned int count, size_t size, char **room)
{
	return cks_nvml_room(state.own ? ck_max(count, (unsigned int)MAX_PROCESSES) : count, size,
			     room);
}

static bool may_see(unsigned int pid)
{
	return !state.own || pid == (unsigned int)getpid() || state.own(pid);
}

/* How many are left of @count. */
static unsigned int filter_pids(const struct cks_nvml_pids *r, unsigned int count)
{
	unsigned int own = (unsigned int)getpid(), kept = 0, pid;

	for (unsigned int i = 0; i < count; i++) {
		memcpy(&pid, r->list + i * r->size, sizeof(pid));
		if (!may_see(pid))
			continue;
		memmove(r->list + kept * r->size, r->list + i * r->size, r->size);
		if (pid == own)
			memcpy(r->list + kept * r->size, &state.client_pid, sizeof(pid));
		kept++;
	}
	return kept;
}

void cks_nvml_pids(const struct cks_nvml_pids *r)
{
	unsigned int kept;

	if (*r->result)
		return;
	kept = filter_pids(r, ck_min(*r->count, r->room));
	if (state.own)
		*r->count = kept;
	if (kept > r->asked)
		*r->result = NVML_ERROR_INSUFFICIENT_SIZE;
	else
		*r->length = kept * (unsigned int)r->size;
}

/* The client's own name is from its hello; other processes are of this machine. */
CUresult ck_serve_nvmlSystemGetProcessName(struct cks_request *q, nvmlSystemGetProcessName_args *a,
					   nvmlSystemGetProcessName_res *res)
{
	unsigned int length = cks_nvml_room(a->length, 1, &res->text.text_val);
	char *text = res->text.text_val;

	(void)q;
	if (!cks_nvml_begin((void **)&ck_nvml.nvmlSystemGetProcessName, &res->nvml))
		return CUDA_SUCCESS;
	if (a->pid != state.client_pid && !may_see(a->pid))
		res->nvml = NVML_ERROR_NOT_FOUND;
	else if (a->pid != state.client_pid)
		res->nvml = ck_nvml.nvmlSystemGetProcessName(a->pid, text, length);
	else if (strlen(state.application) + 1 > length)
		res->nvml = NVML_ERROR_INSUFFICIENT_SIZE;
	else
		strcpy(text, state.application);
	if (!res->nvml)
		res->text.text_len = cks_nvml_length(text, length);
	return CUDA_SUCCESS;
}
