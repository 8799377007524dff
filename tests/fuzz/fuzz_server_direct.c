/*
 * tests/fuzz/fuzz_server_direct.c - any bytes as what the worker of another server sends during a
 * copy, and any text as a list of peers and as an address.
 *
 * The first two bytes choose the direction, whether the copy is a range or a box, and its size.
 * Promises: no fault; a receiver has no success unless each byte came once, and writes nowhere but
 * in the copy's memory; a sender has none unless it was asked to begin.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/copy/staging.h"
#include "server/direct/allowed_peers.h"
#include "server/direct/bridge.h"
#include "server/modules/modcache.h"
#include "tests/fuzz/standalone.h"
#include "tests/unit/rpc_memory_chan.h"
#include "tests/unit/server_fake.h"

#define ROOM 4096 /* of the copy's memory */
#define GUARD 64  /* on each side of it */

static struct cks_session *session;
static struct cks_bridge bridge;
static uint8_t device[GUARD + ROOM + GUARD];

static int take(struct ck_chan *chan, struct iovec *iov, int count, int lent)
{
	(void)chan;
	(void)iov;
	(void)count;
	(void)lent;
	return 0;
}

static const struct ck_transport_ops both_ways = {
	.name = "memory", .read = memory_read, .writev = take};

static void begin(void)
{
	struct cks_modcache *cache;

	if (session)
		return;
	fake_install();
	CK_FUZZ_CHECK(cks_modcache_open("/proc/no-such-place", NULL, 1 << 20, 1 << 20, &cache) ==
		      0);
	CK_FUZZ_CHECK(cks_session_create(cache, NULL, 1, &session) == 0);
	bridge.owner = session->direct;
	bridge.lock = (struct ck_mutex)CK_MUTEX(CK_RANK_DIRECT_BRIDGE);
	bridge.width = 1;
	bridge.ends[0].bridge = &bridge;
	bridge.ends[0].ring = cks_staging_take(session->staging);
	cks_gate_join(&session->gate, &bridge.ends[0].pass);
}

static void describe(struct cks_part *part, bool box, size_t size)
{
	const CUDA_MEMCPY3D shape = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
				     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
				     .srcDevice = (uintptr_t)device + GUARD,
				     .dstDevice = (uintptr_t)device + GUARD,
				     .srcPitch = ROOM / 8,
				     .dstPitch = ROOM / 8,
				     .srcHeight = 8,
				     .dstHeight = 8,
				     .WidthInBytes = size / 8,
				     .Height = 8,
				     .Depth = 1};

	if (box)
		CK_FUZZ_CHECK(!cks_copy_iterator_box(&part->walk, !part->sends, &shape));
	else
		cks_copy_iterator_flat(&part->walk, !part->sends, (uintptr_t)device + GUARD, size);
}

static void check_transfer(const uint8_t *data, size_t size)
{
	struct cks_part part = {.sends = data[0] & 1, .number = 5, .ctx = 1, .left = 1};
	size_t n = 8 + (size_t)(data[0] >> 2) * 8;
	struct memory_chan memory;
	bool ok;

	describe(&part, data[0] & 2, n);
	part.arrived = calloc(1, 8);
	memory_chan_init(&memory, data + 2, size - 2, 1 + data[1]);
	memory.chan.ops = &both_ways;
	bridge.ends[0].chan = &memory.chan;
	memset(device, 0xee, sizeof(device));
	ok = cks_transfer(&bridge.ends[0], &part);
	fake_flush();
	for (size_t i = 0; i < GUARD; i++)
		CK_FUZZ_CHECK(device[i] == 0xee && device[GUARD + ROOM + i] == 0xee);
	if (part.sends)
		CK_FUZZ_CHECK(!ok || memory.at == 24);
	else if (ok && part.received == n) /* as cks_bridge_run asks */
		CK_FUZZ_CHECK(memory.at >= 24 + n + 24);
	free(part.arrived);
}

static void check_text(const uint8_t *data, size_t size)
{
	struct cks_allowed_peers allowed;
	struct sockaddr_storage peer;
	char *text = malloc(size + 1);

	CK_FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	if (cks_allowed_peers_parse(text, &allowed) == 0) {
		CK_FUZZ_CHECK(allowed.count <= CK_ALLOWED_MAX);
		for (size_t i = 0; i < allowed.count; i++)
			CK_FUZZ_CHECK(allowed.entries[i].bits <= 128);
	}
	allowed = (struct cks_allowed_peers){.count = 0};
	cks_allowed_peers_listen(&allowed, text);
	if (cks_allowed_peers_address(text, &peer))
		CK_FUZZ_CHECK(peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	begin();
	check_text(data, size);
	if (size >= 2)
		check_transfer(data, size);
	return 0;
}
