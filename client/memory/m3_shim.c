/*
 * client/memory/m3_shim.c - libm3 in a program that runs under this client. Its requests go to the
 * session's worker, which is connected to the memory broker of its host. See m3/shim.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"
#include "client/memory/physical.h"
#include "client/link/hooks.h"
#include "libcuda/libcuda.h"
#include "m3/shim.h"

static int call_m3(const void *question, size_t size, void *answer, size_t room, size_t *got)
{
	void *bytes = NULL;
	size_t length = 0;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (!err)
		err = ck_wire_m3_call(ctx, question, size, &bytes, &length);
	if (!err && length <= room) {
		memcpy(answer, bytes, length);
		*got = length;
	}
	free(bytes);
	if (err)
		return err == CUDA_ERROR_SYSTEM_NOT_READY ? -EPIPE : -EIO;
	return length <= room ? 0 : -EMSGSIZE;
}

/* --- news */

#define WAIT_MS 60000u

static int subscribe_news(unsigned int mask, unsigned int *number)
{
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (!err)
		err = ck_wire_m3_subscribe(ctx, mask, number);
	return err ? -EIO : 0;
}

/* Wait for news on the calling thread's own connection, beside the program's calls. */
static int wait_for_news(unsigned int number, unsigned int *event, uint64_t *rid)
{
	ck_m3_news_args args = {.number = number, .milliseconds = WAIT_MS};
	ck_m3_news_res res;

	memset(&res, 0, sizeof(res));
	if (ckc_call_aside(ckc_client_current(), CK_PROC_m3_news, &args, &res))
		return -EPIPE;
	*event = res.event;
	*rid = res.region;
	return res.over == 0 ? 0 : res.over == 1 ? -ENODATA : -EPIPE;
}

static void unsubscribe_news(unsigned int number)
{
	uint64_t ctx;

	if (ckc_enter_any(&ctx) == CUDA_SUCCESS)
		ck_wire_m3_unsubscribe(ctx, number);
}

/* The client's own export tables: that of libm3, and those of higher layers. */
const void *ck_libcuda_own_table(const CUuuid *id)
{
	static const CUuuid ours = CK_M3_SHIM_UUID;
	static const struct ck_m3_shim table = {
		.size = sizeof(table),
		.call = call_m3,
		.import = ckc_physical_import,
		.subscribe = subscribe_news,
		.news = wait_for_news,
		.unsubscribe = unsubscribe_news,
	};

	ckc_each_hook(own_table, h)
	{
		if (memcmp(id, &h->id, sizeof(*id)) == 0)
			return h->table;
	}
	return memcmp(id, &ours, sizeof(ours)) == 0 ? &table : NULL;
}
