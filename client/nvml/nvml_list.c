/*
 * client/nvml/nvml_list.c - NVML's list of devices: the same devices as CUDA's without the
 * program's CUDA_VISIBLE_DEVICES, in the same order, under the same names.
 *
 * A server's NVML also lists GPUs that its CUDA_VISIBLE_DEVICES or the address leaves out. PyTorch
 * counts devices by NVML and then uses them by CUDA. A device is found by its UUID; one whose UUID
 * is not NVML's, as that of an instance of a GPU, is found by its number.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/nvml/nvml.h"
#include "client/link/uuid_alias.h"
#include "cricket.h"
#include "gen/numbers.h"
#include "gen/nvml_bodies.h"
#include "util/util.h"
#include "util/uuid.h"

#define UUID_ROOM 96

/* The devices of session @c that are in the list. */
static unsigned int count_of(const struct ckc_client *c)
{
	const unsigned int *chosen;
	unsigned int count = ckc_server_devices(c->index, &chosen);

	return count ? count : c->hello.devices.devices_len;
}

static unsigned int count_all(void)
{
	unsigned int all = 0;

	for (unsigned int i = 0; i < ckc_servers_count(); i++)
		all += count_of(ckc_server_session(i));
	return all;
}

nvmlReturn_t ckc_do_nvmlDeviceGetCount_v2(nvmlDeviceGetCount_v2_args *a,
					  nvmlDeviceGetCount_v2_res *r)
{
	(void)a;
	r->deviceCount = count_all();
	return NVML_SUCCESS;
}

/* Number @place of the list: turn to its session; returns its index there. -1: the list is
 * shorter. */
static long find_device(unsigned int place)
{
	for (unsigned int i = 0; i < ckc_servers_count(); i++) {
		struct ckc_client *c = ckc_server_session(i);
		const unsigned int *chosen;

		if (place < count_of(c)) {
			ckc_route(c);
			return ckc_server_devices(i, &chosen) ? (long)chosen[place] : (long)place;
		}
		place -= count_of(c);
	}
	return -1;
}

/* The place in the list of the current session's device @index; -1: it is not in the list. */
static long place_of(unsigned int index)
{
	const struct ckc_client *current = ckc_client_current();

	for (unsigned int place = 0; place < count_all(); place++) {
		long at = find_device(place);

		if (ckc_client_current() == current && at == (long)index)
			return place;
	}
	return -1;
}

/* The UUID of a device of @c, as its server writes it. */
static void write_uuid(const struct ckc_client *c, unsigned int ordinal, char text[CK_UUID_TEXT])
{
	ck_uuid_print((const unsigned char *)c->hello.devices.devices_val[ordinal].uuid, text);
	ckc_uuid_alias_uuid_back(c, text);
}

/* The current session's device @ordinal, as the server's NVML knows it. */
static nvmlReturn_t by_ordinal(unsigned int ordinal, nvmlDeviceGetHandleByIndex_v2_res *r)
{
	const struct ckc_client *c = ckc_client_current();
	char text[CK_UUID_TEXT];
	nvmlDeviceGetHandleByUUID_args by_uuid = {.uuid = text};
	nvmlDeviceGetHandleByUUID_res found = {0};
	nvmlDeviceGetHandleByIndex_v2_args by_number = {.index = ordinal};
	nvmlReturn_t err;

	/* the address may name one that the server lacks */
	if (ordinal >= c->hello.devices.devices_len)
		return NVML_ERROR_INVALID_ARGUMENT;
	write_uuid(c, ordinal, text);
	err = ckc_nvml_ask(CK_PROC_nvmlDeviceGetHandleByUUID, &by_uuid, &found, &found.nvml);
	r->device = found.device;
	if (err == NVML_ERROR_NOT_FOUND)
		err = ckc_nvml_ask(CK_PROC_nvmlDeviceGetHandleByIndex_v2, &by_number, r, &r->nvml);
	return err;
}

nvmlReturn_t ckc_do_nvmlDeviceGetHandleByIndex_v2(nvmlDeviceGetHandleByIndex_v2_args *a,
						  nvmlDeviceGetHandleByIndex_v2_res *r)
{
	long ordinal = find_device(a->index);

	return ordinal < 0 ? NVML_ERROR_INVALID_ARGUMENT : by_ordinal((unsigned int)ordinal, r);
}

static bool is_text(const nvmlDeviceGetUUID_res *r)
{
	return r->uuid.uuid_len > 0 && r->uuid.uuid_val[r->uuid.uuid_len - 1] == '\0';
}

/* Find @uuid, a server's answer, among the devices of the current session. */
static bool find_uuid(const nvmlDeviceGetUUID_res *uuid, unsigned int *ordinal)
{
	const struct ckc_client *c = ckc_client_current();
	char text[CK_UUID_TEXT];

	if (!is_text(uuid))
		return false;
	for (*ordinal = 0; *ordinal < c->hello.devices.devices_len; ++*ordinal) {
		write_uuid(c, *ordinal, text);
		if (strcmp(text, uuid->uuid.uuid_val) == 0)
			return true;
	}
	return false;
}

nvmlReturn_t ckc_nvml_ordinal(unsigned int device, unsigned int *ordinal)
{
	nvmlDeviceGetUUID_args by_uuid = {.device = device, .length = UUID_ROOM};
	nvmlDeviceGetUUID_res uuid = {0};
	nvmlDeviceGetIndex_args by_number = {.device = device};
	nvmlDeviceGetIndex_res number = {0};
	nvmlDeviceGetHandleByIndex_v2_res r = {0};
	nvmlReturn_t err = ckc_nvml_ask(CK_PROC_nvmlDeviceGetUUID, &by_uuid, &uuid, &uuid.nvml);
	bool found = !err && find_uuid(&uuid, ordinal);

	xdr_free((xdrproc_t)xdr_nvmlDeviceGetUUID_res, &uuid);
	if (err || found)
		return err;
	err = ckc_nvml_ask(CK_PROC_nvmlDeviceGetIndex, &by_number, &number, &number.nvml);
	*ordinal = number.index;
	if (!err)
		err = by_ordinal(*ordinal, &r);
	return err == NVML_ERROR_INVALID_ARGUMENT || (!err && r.device != device)
		       ? NVML_ERROR_NOT_FOUND
		       : err;
}

nvmlReturn_t ckc_do_nvmlDeviceGetIndex(nvmlDeviceGetIndex_args *a, nvmlDeviceGetIndex_res *r)
{
	struct ckc_client *c = ckc_client_current();
	unsigned int ordinal;
	nvmlReturn_t err = ckc_nvml_ordinal(a->device, &ordinal);
	long place = err ? -1 : place_of(ordinal);

	ckc_route(c);
	if (!err && place < 0)
		return NVML_ERROR_NOT_FOUND;
	r->index = (u_int)place;
	return err;
}

/* Is the device in the list? It belongs to the current session. */
static bool is_listed(unsigned int device)
{
	nvmlDeviceGetIndex_args a = {.device = device};
	nvmlDeviceGetIndex_res r = {0};

	return ckc_do_nvmlDeviceGetIndex(&a, &r) == NVML_SUCCESS;
}

/* --- names of the list to those of the current session's server; false: not of this server */

static bool own_uuid(const struct ckc_client *c, const char *text, char *out)
{
	char again[UUID_ROOM];

	if (strlen(text) >= UUID_ROOM)
		return false;
	strcpy(out, text);
	ckc_uuid_alias_uuid_back(c, out);
	strcpy(again, out);
	ckc_uuid_alias_uuid(c, again);
	return strcmp(again, text) == 0;
}

static bool own_bus_id(const struct ckc_client *c, const char *text, char *out)
{
	unsigned int domain = 0, first = ckc_uuid_alias_domain(c, 0);
	const char *rest = strchr(text, ':');

	/* bus:device.function has no domain */
	if (!rest || !strchr(rest + 1, ':') || sscanf(text, "%x:", &domain) != 1)
		return c->index == 0 && snprintf(out, UUID_ROOM, "%s", text) < UUID_ROOM;
	if (domain < first || ckc_uuid_alias_domain(c, domain - first) != domain)
		return false;
	return snprintf(out, UUID_ROOM, "%08x%s", domain - first, rest) < UUID_ROOM;
}

/* Ask each server for the device that is called *@name in the list. The results of these calls are
 * alike. */
static nvmlReturn_t by_name(uint32_t proc, void *args, char **name,
			    bool (*own)(const struct ckc_client *, const char *, char *),
			    nvmlDeviceGetHandleByUUID_res *r)
{
	char *text = *name, room[UUID_ROOM];
	nvmlReturn_t err = NVML_ERROR_NOT_FOUND;

	for (unsigned int i = 0; i < ckc_servers_count() && err; i++) {
		struct ckc_client *c = ckc_server_session(i);

		if (own && !own(c, text, room))
			continue;
		*name = own ? room : text;
		ckc_route(c);
		err = ckc_nvml_ask(proc, args, r, &r->nvml);
		if (!err && !is_listed(r->device))
			err = NVML_ERROR_NOT_FOUND;
		ckc_route(c);
	}
	*name = text;
	return err;
}

nvmlReturn_t ckc_do_nvmlDeviceGetHandleByUUID(nvmlDeviceGetHandleByUUID_args *a,
					      nvmlDeviceGetHandleByUUID_res *r)
{
	return by_name(CK_PROC_nvmlDeviceGetHandleByUUID, a, &a->uuid, own_uuid, r);
}

nvmlReturn_t ckc_do_nvmlDeviceGetHandleByPciBusId_v2(nvmlDeviceGetHandleByPciBusId_v2_args *a,
						     nvmlDeviceGetHandleByPciBusId_v2_res *r)
{
	return by_name(CK_PROC_nvmlDeviceGetHandleByPciBusId_v2, a, &a->pciBusId, own_bus_id,
		       (void *)r);
}

nvmlReturn_t ckc_do_nvmlDeviceGetHandleBySerial(nvmlDeviceGetHandleBySerial_args *a,
						nvmlDeviceGetHandleBySerial_res *r)
{
	return by_name(CK_PROC_nvmlDeviceGetHandleBySerial, a, &a->serial, NULL, (void *)r);
}

/* UUIDs as bytes: no program has been seen to ask. */
nvmlReturn_t ckc_do_nvmlDeviceGetHandleByUUIDV(nvmlDeviceGetHandleByUUIDV_args *a,
					       nvmlDeviceGetHandleByUUIDV_res *r)
{
	(void)a;
	(void)r;
	return NVML_ERROR_NOT_SUPPORTED;
}

/* --- names of the server to those of the list */

static void rename_bus_id(char *text, size_t room, unsigned int domain)
{
	char *rest = memchr(text, ':', room);

	if (rest == text + 4)
		snprintf(text, 5, "%04x", domain & 0xffff);
	else if (rest == text + 8)
		snprintf(text, 9, "%08x", domain);
	if (rest)
		*rest = ':';
}

nvmlReturn_t ckc_do_nvmlDeviceGetUUID(nvmlDeviceGetUUID_args *a, nvmlDeviceGetUUID_res *r)
{
	nvmlReturn_t err = ckc_nvml_ask(CK_PROC_nvmlDeviceGetUUID, a, r, &r->nvml);

	if (!err && is_text(r))
		ckc_uuid_alias_uuid(ckc_client_current(), r->uuid.uuid_val);
	return err;
}

nvmlReturn_t ckc_do_nvmlDeviceGetPciInfo_v3(nvmlDeviceGetPciInfo_v3_args *a,
					    nvmlDeviceGetPciInfo_v3_res *r)
{
	struct nvmlPciInfo_t *pci = (void *)r->pci;
	nvmlReturn_t err = ckc_nvml_ask(CK_PROC_nvmlDeviceGetPciInfo_v3, a, r, &r->nvml);

	if (err)
		return err;
	pci->domain = ckc_uuid_alias_domain(ckc_client_current(), pci->domain);
	rename_bus_id(pci->busIdLegacy, sizeof(pci->busIdLegacy), pci->domain);
	rename_bus_id(pci->busId, sizeof(pci->busId), pci->domain);
	return NVML_SUCCESS;
}

nvmlReturn_t ckc_do_nvmlDeviceGetPciInfoExt(nvmlDeviceGetPciInfoExt_args *a,
					    nvmlDeviceGetPciInfoExt_res *r)
{
	struct nvmlPciInfoExt_t *pci = (void *)r->pci;
	nvmlReturn_t err = ckc_nvml_ask(CK_PROC_nvmlDeviceGetPciInfoExt, a, r, &r->nvml);

	if (err)
		return err;
	pci->domain = ckc_uuid_alias_domain(ckc_client_current(), pci->domain);
	rename_bus_id(pci->busId, sizeof(pci->busId), pci->domain);
	return NVML_SUCCESS;
}
