/*
 * m3/lib_bytes.c - libm3: bytes of regions by way of the broker, events that order their users, and
 * statuses.
 */
#include <string.h>

#include "m3/lib.h"
#include "util/util.h"

/* --- bytes */

static bool range_fits(const m3_region *r, uint64_t offset, uint64_t size)
{
	uint64_t end;

	return r && size > 0 && !ck_add_overflow(offset, size, &end) && end <= r->size;
}

/* One piece by way of the broker's copier. */
static int transfer_piece(m3_region *r, uint64_t offset, void *to, const void *from, size_t size)
{
	struct ck_m3_back back = {.data = to, .room = size, .fd = -1};
	struct ck_m3_request q;
	int status;

	ck_m3_request_init(&q, from ? CK_M3_WRITE : CK_M3_READ);
	q.offset = offset;
	q.size = size;
	q.data_size = from ? (uint32_t)size : 0;
	status = ck_m3_call(r->client, r, &q, from, NULL, to ? &back : NULL);
	return status == M3_OK && to && back.size != size ? M3_EPROTO : status;
}

static int transfer_range(m3_region *r, uint64_t offset, void *to, const void *from, size_t size)
{
	int status = M3_OK;

	for (size_t at = 0, n; at < size && status == M3_OK; at += n) {
		n = ck_min(size - at, (size_t)CK_M3_DATA_MAX);
		status = transfer_piece(r, offset + at, to ? (char *)to + at : NULL,
					from ? (const char *)from + at : NULL, n);
	}
	return status;
}

int m3_read(m3_region *r, uint64_t offset, void *data, size_t size)
{
	if (!range_fits(r, offset, size) || !data)
		return M3_EINVAL;
	if (ck_m3_direct(r, M3_READ))
		return ck_m3_status_of(
			r->client->driver.cuMemcpyDtoH_v2(data, r->address + offset, size));
	return transfer_range(r, offset, data, NULL, size);
}

int m3_write(m3_region *r, uint64_t offset, const void *data, size_t size)
{
	if (!range_fits(r, offset, size) || !data)
		return M3_EINVAL;
	if (r->access != M3_READWRITE)
		return M3_EPERM;
	if (ck_m3_direct(r, M3_READWRITE))
		return ck_m3_status_of(
			r->client->driver.cuMemcpyHtoD_v2(r->address + offset, data, size));
	return transfer_range(r, offset, NULL, data, size);
}

int m3_fill(m3_region *r, uint64_t offset, unsigned char value, uint64_t size)
{
	struct ck_m3_request q;

	if (!range_fits(r, offset, size))
		return M3_EINVAL;
	ck_m3_request_init(&q, CK_M3_FILL);
	q.offset = offset;
	q.size = size;
	q.value = value;
	return ck_m3_call(r->client, r, &q, NULL, NULL, NULL);
}

int m3_copy(m3_region *to, uint64_t to_offset, m3_region *from, uint64_t from_offset, uint64_t size)
{
	struct ck_m3_request q;

	if (!range_fits(to, to_offset, size) || !range_fits(from, from_offset, size) ||
	    to->client != from->client)
		return M3_EINVAL;
	ck_m3_request_init(&q, CK_M3_COPY);
	q.offset = to_offset;
	q.from = from->rid;
	q.from_offset = from_offset;
	q.size = size;
	return ck_m3_call(to->client, to, &q, NULL, NULL, NULL);
}

/* --- order */

int m3_event_export(m3_region *r, void *event)
{
	CUipcEventHandle handle;
	struct ck_m3_request q;
	CUresult err;

	if (!r || !event)
		return M3_EINVAL;
	if (!r->client->has_driver || !r->client->driver.cuIpcGetEventHandle)
		return M3_ENOTSUP;
	err = r->client->driver.cuIpcGetEventHandle(&handle, event);
	if (err)
		return ck_m3_status_of(err);
	ck_m3_request_init(&q, CK_M3_EVENT_SET);
	q.data_size = sizeof(handle);
	return ck_m3_call(r->client, r, &q, &handle, NULL, NULL);
}

/* The event that was left with the region, opened once. Its lock is held. */
static int event_open(m3_region *r)
{
	const struct ck_m3_driver *d = &r->client->driver;
	CUipcEventHandle handle;
	struct ck_m3_back back = {.data = &handle, .room = sizeof(handle), .fd = -1};
	struct ck_m3_request q;
	CUresult err;
	int status;

	ck_m3_request_init(&q, CK_M3_EVENT_GET);
	status = ck_m3_call(r->client, r, &q, NULL, NULL, &back);
	if (status != M3_OK)
		return status;
	if (r->event && memcmp(r->event_bytes, &handle, sizeof(handle)) == 0)
		return M3_OK;
	if (r->event)
		d->cuEventDestroy_v2(r->event);
	r->event = NULL;
	err = d->cuIpcOpenEventHandle(&r->event, handle);
	if (!err)
		memcpy(r->event_bytes, &handle, sizeof(handle));
	return ck_m3_status_of(err);
}

int m3_event_wait(m3_region *r, void *stream)
{
	int status;

	if (!r)
		return M3_EINVAL;
	if (!r->client->has_driver || !r->client->driver.cuIpcOpenEventHandle)
		return M3_ENOTSUP;
	pthread_mutex_lock(&r->lock);
	status = event_open(r);
	if (status == M3_OK)
		status = ck_m3_status_of(r->client->driver.cuStreamWaitEvent(stream, r->event, 0));
	pthread_mutex_unlock(&r->lock);
	return status;
}

/* --- statuses */

const char *m3_strerror(int status)
{
	static const char *const texts[] = {
		"success",
		"invalid argument",
		"protocol error",
		"not permitted",
		"no such region",
		"the region exists",
		"the region has another size or device",
		"registered already",
		"out of memory",
		"quota exceeded",
		"the device cannot reach the memory",
		"not supported",
		"busy",
		"timed out",
		"the region was of a broker that is gone",
		"the device is lost",
		"no broker, or the driver failed",
		"library and broker are of different versions",
	};

	if (status > 0 || -status >= (int)CK_ARRAY_SIZE(texts))
		return "unknown status";
	return texts[-status];
}

const char *m3_version(void)
{
	return CK_RELEASE;
}

int m3_legacy_status(int status)
{
	switch (status) {
	case M3_OK:
		return 1;
	case M3_ENOTSUP:
		return 2;
	case M3_EIO:
	case M3_EPROTO:
		return 3;
	case M3_EDUPLICATE:
		return 4;
	default:
		return 5;
	}
}
