/*
 * m3/lib_query.c - libm3: questions to the broker about regions, quotas and devices.
 */
#include <stdlib.h>
#include <string.h>

#include "m3/lib.h"
#include "util/util.h"

static void own_info(const m3_client *c, m3_info *info)
{
	info->device = ck_m3_own_device(c, info->uuid, info->device);
}

int m3_stat(m3_region *r, m3_info *info)
{
	struct ck_m3_request q;
	struct ck_m3_reply reply;
	int status;

	if (!r || !info)
		return M3_EINVAL;
	ck_m3_request_init(&q, CK_M3_STAT);
	status = ck_m3_call(r->client, r, &q, NULL, &reply, NULL);
	if (status == M3_OK) {
		*info = reply.info;
		own_info(r->client, info);
	}
	return status;
}

int m3_list(m3_client *c, const char *prefix, int (*each)(const m3_info *, void *), void *data)
{
	m3_info *infos = malloc(CK_M3_DATA_MAX);
	struct ck_m3_back back = {.data = infos, .room = CK_M3_DATA_MAX, .fd = -1};
	struct ck_m3_request q;
	int status = M3_OK, stop = 0;

	ck_m3_request_init(&q, CK_M3_LIST);
	if (!infos || !c || !each || (prefix && strlen(prefix) >= sizeof(q.name))) {
		free(infos);
		return c && each && infos == NULL ? M3_ENOMEM : M3_EINVAL;
	}
	if (prefix)
		strcpy(q.name, prefix);
	do {
		status = ck_m3_call(c, NULL, &q, NULL, NULL, &back);
		if (status == M3_OK && back.size % sizeof(*infos))
			status = M3_EPROTO;
		for (size_t i = 0; status == M3_OK && !stop && i < back.size / sizeof(*infos);
		     i++) {
			q.from = infos[i].rid;
			own_info(c, &infos[i]);
			stop = each(&infos[i], data);
		}
	} while (status == M3_OK && !stop && back.size > 0);
	free(infos);
	return status;
}

int m3_rounded_size(m3_client *c, int device, uint64_t bytes, unsigned int flags, uint64_t *rounded,
		    uint64_t *granularity)
{
	struct ck_m3_request q;
	struct ck_m3_reply reply;
	int status;

	if (!c || !rounded)
		return M3_EINVAL;
	ck_m3_request_init(&q, CK_M3_ROUND);
	q.size = bytes;
	q.flags = flags;
	status = ck_m3_name_device(c, device, &q);
	if (status == M3_OK)
		status = ck_m3_call(c, NULL, &q, NULL, &reply, NULL);
	if (status != M3_OK)
		return status;
	*rounded = reply.size;
	if (granularity)
		*granularity = reply.count;
	return M3_OK;
}

static int request_quota(m3_client *c, enum ck_m3_op op, const char *principal, uint64_t bytes,
			 uint64_t regions, struct ck_m3_reply *reply)
{
	struct ck_m3_request q;

	if (!c || (principal && !ck_m3_text_ok(principal, sizeof(q.principal), 1)))
		return M3_EINVAL;
	ck_m3_request_init(&q, op);
	q.size = bytes;
	q.count = regions;
	if (principal)
		strcpy(q.principal, principal);
	return ck_m3_call(c, NULL, &q, NULL, reply, NULL);
}

int m3_quota_get(m3_client *c, const char *principal, uint64_t *bytes, uint64_t *regions,
		 uint64_t *bytes_used, uint64_t *regions_used)
{
	struct ck_m3_reply reply;
	int status = request_quota(c, CK_M3_QUOTA_GET, principal, 0, 0, &reply);

	if (status != M3_OK)
		return status;
	if (bytes)
		*bytes = reply.size;
	if (regions)
		*regions = reply.count;
	if (bytes_used)
		*bytes_used = reply.used;
	if (regions_used)
		*regions_used = reply.used_count;
	return M3_OK;
}

int m3_quota_set(m3_client *c, const char *principal, uint64_t bytes, uint64_t regions)
{
	return request_quota(c, CK_M3_QUOTA_SET, principal, bytes, regions, NULL);
}

int m3_topology(m3_client *c, m3_topo *topo)
{
	struct ck_m3_back back = {.data = topo, .room = sizeof(*topo), .fd = -1};
	struct ck_m3_request q;
	int status;

	if (!c || !topo)
		return M3_EINVAL;
	ck_m3_request_init(&q, CK_M3_TOPOLOGY);
	status = ck_m3_call(c, NULL, &q, NULL, NULL, &back);
	if (status == M3_OK && back.size != sizeof(*topo))
		status = M3_EPROTO;
	for (int i = 0; status == M3_OK && i < topo->count && i < M3_DEVICES_MAX; i++)
		topo->devices[i].device = ck_m3_own_device(c, topo->devices[i].uuid, i);
	return status;
}

int m3_echo(m3_client *c, const void *bytes, size_t size, void *out)
{
	struct ck_m3_back back = {.data = out, .room = size, .fd = -1};
	struct ck_m3_request q;
	int status;

	if (!c || !bytes || !out || size == 0 || size > 4096)
		return M3_EINVAL;
	ck_m3_request_init(&q, CK_M3_ECHO);
	q.data_size = (uint32_t)size;
	status = ck_m3_call(c, NULL, &q, bytes, NULL, &back);
	return status == M3_OK && back.size != size ? M3_EPROTO : status;
}

int m3_halt(m3_client *c)
{
	struct ck_m3_request q;

	if (!c)
		return M3_EINVAL;
	ck_m3_request_init(&q, CK_M3_HALT);
	return ck_m3_call(c, NULL, &q, NULL, NULL, NULL);
}
