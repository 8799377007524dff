/*
 * server/memory/m3_devices.c - see m3_devices.h.
 */
#include <string.h>

#include "m3/m3.h"
#include "server/memory/m3_devices.h"
#include "server/session/device_map.h"
#include "util/util.h"

void cks_m3_devices_out(struct ck_m3_request *request)
{
	unsigned char now[16];

	if (cks_device_map_now(request->uuid, now))
		memcpy(request->uuid, now, sizeof(now));
}

static void name_again(unsigned char uuid[16])
{
	unsigned char was[16];

	if (cks_device_map_before(uuid, was))
		memcpy(uuid, was, sizeof(was));
}

void cks_m3_devices_in(struct ck_m3_answer *answer)
{
	size_t size = answer->head.data_size;
	m3_topo topo;
	m3_info info;

	name_again(answer->head.info.uuid);
	if (answer->head.op == CK_M3_LIST) {
		for (size_t at = 0; at + sizeof(info) <= size; at += sizeof(info)) {
			memcpy(&info, answer->data + at, sizeof(info));
			name_again(info.uuid);
			memcpy(answer->data + at, &info, sizeof(info));
		}
	} else if (answer->head.op == CK_M3_TOPOLOGY && size == sizeof(topo)) {
		memcpy(&topo, answer->data, sizeof(topo));
		for (int i = 0; i < ck_min(topo.count, M3_DEVICES_MAX); i++)
			name_again(topo.devices[i].uuid);
		memcpy(answer->data, &topo, sizeof(topo));
	}
}
