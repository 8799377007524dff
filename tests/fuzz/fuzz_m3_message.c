/*
 * tests/fuzz/fuzz_m3_message.c - a broker's requests: whatever comes in a packet is served or
 * refused. The broker here has a driver that gives nothing, so that the input reaches all of its
 * code and no device.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "m3/broker.h"

static CUresult create(CUmemGenericAllocationHandle *handle, size_t size,
		       const CUmemAllocationProp *prop, unsigned long long flags)
{
	(void)size;
	(void)prop;
	(void)flags;
	*handle = 1;
	return CUDA_SUCCESS;
}

static CUresult export_null(void *out, CUmemGenericAllocationHandle handle,
			    CUmemAllocationHandleType type, unsigned long long flags)
{
	int fd = dup(0);

	(void)handle;
	(void)type;
	(void)flags;
	memcpy(out, &fd, sizeof(fd));
	return fd < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
	(void)handle;
	return CUDA_SUCCESS;
}

static CUresult granularity(size_t *out, const CUmemAllocationProp *prop,
			    CUmemAllocationGranularity_flags option)
{
	(void)prop;
	(void)option;
	*out = 4096;
	return CUDA_SUCCESS;
}

static CUresult uuid(CUuuid *out, CUdevice device)
{
	memset(out, device + 1, sizeof(*out));
	return CUDA_SUCCESS;
}

/* Take the answer away, so that the socket is never full. */
static void drain(int fd)
{
	static struct ck_m3_answer answer;
	int got;

	while (ck_m3_receive(fd, &answer, sizeof(answer), &got, MSG_DONTWAIT) > 0) {
		if (got >= 0)
			close(got);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Input: whether the connection has said hello, then packets, each after two bytes of its
 * length. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ck_m3_question question;
	static const struct ck_m3_broker_options options = {.listener = -1};
	static struct ck_m3_broker broker;
	struct ck_m3_conn conn = {.pidfd = -1, .device = -1, .trusted = true};
	struct ck_m3_piece *piece;
	const int device = 0;
	int ends[2];
	size_t n;

	if (size == 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) < 0)
		return 0;
	conn.greeted = *data++ & 1;
	size--;
	memset(&broker, 0, sizeof(broker));
	broker.options = &options;
	broker.epoch = 1;
	broker.driver.device_count = 2;
	broker.driver.cuMemCreate = create;
	broker.driver.cuMemExportToShareableHandle = export_null;
	broker.driver.cuMemRelease = release;
	broker.driver.cuMemGetAllocationGranularity = granularity;
	broker.driver.cuDeviceGetUuid = uuid;
	broker.copier = ck_m3_copier_create(NULL);
	broker.conns = &conn;
	conn.fd = ends[0];
	conn.user = conn.principal = ck_m3_principal_get(&broker, "uid:1");
	conn.user->sockets = conn.user->uses = 1;
	conn.user->connections = conn.greeted;
	/* a region to talk of: number 1 of the first life */
	if (ck_m3_piece_create(&broker, &conn, &device, 1, 1u << 20, false, &piece) == M3_OK) {
		piece->mode = 0600;
		piece->flags = M3_SEALABLE;
		ck_m3_reference_add(&conn, piece, M3_READWRITE);
	}
	while (size > 2 && !conn.closing && !conn.parked) {
		n = data[0] | data[1] << 8;
		data += 2;
		size -= 2;
		n = n < size ? n : size;
		n = n < sizeof(question) ? n : sizeof(question);
		memcpy(&question, data, n);
		ck_m3_serve(&broker, &conn, &question, n, -1);
		drain(ends[1]);
		data += n;
		size -= n;
	}
	ck_m3_holds_end(&broker, &conn);
	ck_m3_deposits_end(&conn);
	ck_m3_copier_destroy(broker.copier);
	while (broker.pieces) {
		broker.pieces->detached = false;
		ck_m3_piece_check(&broker, broker.pieces);
	}
	while (broker.principals) {
		struct ck_m3_principal *p = broker.principals;

		broker.principals = p->next;
		free(p);
	}
	close(ends[0]);
	close(ends[1]);
	return 0;
}
