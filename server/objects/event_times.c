/*
 * server/objects/event_times.c - the times between several pairs of events in one reply, alone or
 * with that of a wait. The driver computes each of them.
 */
#include <stdlib.h>

#include "gen/handlers.h"
#include "rpc/status.h"
#include "server/objects/wait.h"
#include "server/session/session.h"
#include "util/util.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "floats travel with the low byte first");

static CUresult time_between(struct cks_request *q, uint64_t start, uint64_t end, float *out)
{
	CUevent from, to;

	if (!cks_event_find(q, start, &from) || !cks_event_find(q, end, &to))
		return CUDA_ERROR_INVALID_HANDLE;
	return ck_driver.cuEventElapsedTime_v2(out, from, to);
}

/* The times up to the first pair that has none, into @out, which the reply frees. Returns the error
 * of the first pair. */
static CUresult times_between(struct cks_request *q, const uint64_t *starts, const uint64_t *ends,
			      unsigned int count, char **out, u_int *size)
{
	float *times = malloc(count * sizeof(*times));
	CUresult first, err;
	unsigned int i = 0;

	if (!times)
		return CUDA_ERROR_OUT_OF_MEMORY;
	first = err = time_between(q, starts[0], ends[0], &times[0]);
	while (!err && ++i < count)
		err = time_between(q, starts[i], ends[i], &times[i]);
	*out = (char *)times;
	*size = (u_int)(i * sizeof(*times));
	return first;
}

static bool fits(u_int starts, u_int ends)
{
	return starts > 0 && starts <= CK_TIMES_MOST && starts == ends;
}

/* Without an event to wait for, this is a question whose error is that of the first pair. */
CUresult ck_serve_event_times(struct cks_request *q, ck_event_times_args *a,
			      ck_event_times_res *res)
{
	CUevent event;
	CUresult err = CUDA_SUCCESS, first;

	if (!ck_driver.cuEventElapsedTime_v2 || !ck_driver.cuEventSynchronize)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!fits(a->starts.starts_len, a->ends.ends_len))
		return CUDA_ERROR_INVALID_VALUE;
	if (a->wait && !cks_event_find(q, a->wait, &event))
		return CUDA_ERROR_INVALID_HANDLE;
	if (a->wait)
		err = ck_driver.cuEventSynchronize(event);
	if (err)
		return err;
	first = times_between(q, a->starts.starts_val, a->ends.ends_val, a->starts.starts_len,
			      &res->times.times_val, &res->times.times_len);
	return a->wait ? CUDA_SUCCESS : first;
}

CUresult ck_serve_wait_times(struct cks_request *q, ck_wait_times_args *a, ck_wait_times_res *res)
{
	CUresult err;

	if (!ck_driver.cuEventElapsedTime_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!fits(a->starts.starts_len, a->ends.ends_len))
		return CUDA_ERROR_INVALID_VALUE;
	err = cks_wait_for_work(q, a->stream, a->context);
	if (err)
		return err;
	times_between(q, a->starts.starts_val, a->ends.ends_val, a->starts.starts_len,
		      &res->times.times_val, &res->times.times_len);
	return CUDA_SUCCESS;
}
