/*
 * server/session/profile.c - see profile.h. Records wait here, in pieces, until the client fetches
 * them.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cricket.h"
#include "cuda/cupti.h"
#include "gen/handlers.h"
#include "rpc/activity.h"
#include "server/session/driver.h"
#include "server/session/locks.h"
#include "server/session/profile.h"
#include "server/session/profile_record.h"
#include "server/session/session.h"
#include "util/env.h"
#include "util/log.h"
#include "util/map.h"

CK_LOG_DEFINE("server");

#define BUFFER_SIZE (1u << 20)
#define PIECES_MAX 1024 /* 256 MiB of records that the client has not fetched */
#define ID_KIND CKS_PROFILE_ID_KIND

atomic_bool cks_profile_on;

struct piece {
	struct piece *next;
	size_t size;
	unsigned char bytes[CK_ACTIVITY_PIECE];
};

/* CUPTI's functions. */
static struct {
	CUptiResult (*cuptiActivityRegisterCallbacks)(ck_cupti_request_fn, ck_cupti_complete_fn);
	CUptiResult (*cuptiActivityEnable)(uint32_t);
	CUptiResult (*cuptiActivityDisable)(uint32_t);
	CUptiResult (*cuptiActivityFlushAll)(uint32_t);
	CUptiResult (*cuptiActivityGetNextRecord)(uint8_t *, size_t, void **);
	CUptiResult (*cuptiActivityGetNumDroppedRecords)(void *, uint32_t, size_t *);
	CUptiResult (*cuptiActivityPushExternalCorrelationId)(uint32_t, uint64_t);
	CUptiResult (*cuptiActivityPopExternalCorrelationId)(uint32_t, uint64_t *);
	CUptiResult (*cuptiGetTimestamp)(uint64_t *);
	CUptiResult (*cuptiGetContextId)(CUcontext, uint32_t *);
	CUptiResult (*cuptiGetStreamIdEx)(CUcontext, CUstream, uint8_t, uint32_t *);
	/* or NULL: since CUDA 12 */
	CUptiResult (*cuptiGetGraphExecId)(CUgraphExec, uint32_t *);
	CUptiResult (*cuptiGetGraphId)(CUgraph, uint32_t *);
	CUptiResult (*cuptiGetVersion)(uint32_t *);
} cupti;

/* A worker has one session. */
static struct {
	pthread_once_t once;
	atomic_bool open;
	struct ck_mutex kinds_lock; /* with enabled: lanes may set kinds at the same time */
	uint64_t enabled;
	struct ck_mutex lock; /* with the members below */
	struct piece *first, **end;
	struct piece *last; /* being filled */
	unsigned int count;
	uint64_t dropped;
	struct ck_map *names; /* text to number */
	uint32_t version;     /* of CUPTI; 0: unknown */
} state = {
	.once = PTHREAD_ONCE_INIT,
	.kinds_lock = CK_MUTEX(CK_RANK_PROFILE_KINDS),
	.lock = CK_MUTEX(CK_RANK_PROFILE),
	.end = &state.first,
};

/* --- the library */

static const char *const places[] = {
	"libcupti.so.13",
	"libcupti.so.12",
	"libcupti.so",
	"/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
	"/usr/local/cuda/lib64/libcupti.so",
};

static void *open_real(void)
{
	char named[PATH_MAX];
	void *library = NULL;

	if (ck_env_word("CRICKET_DEBUG", "cupti", named, sizeof(named)) == 0 && *named &&
	    strcmp(named, "0") != 0)
		return dlopen(named, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; !library && i < CK_ARRAY_SIZE(places); i++)
		library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
	return library;
}

static bool find_symbol(void *library, const char *name, void *slot)
{
	void *function = dlsym(library, name);

	memcpy(slot, &function, sizeof(function));
	return function != NULL;
}

#define FIND(library, name) find_symbol(library, #name, &cupti.name)

static bool find_all(void *library)
{
	find_symbol(library, "cuptiGetGraphExecId", &cupti.cuptiGetGraphExecId);
	find_symbol(library, "cuptiGetGraphId", &cupti.cuptiGetGraphId);
	return FIND(library, cuptiActivityRegisterCallbacks) &&
	       FIND(library, cuptiActivityEnable) && FIND(library, cuptiActivityDisable) &&
	       FIND(library, cuptiActivityFlushAll) && FIND(library, cuptiActivityGetNextRecord) &&
	       FIND(library, cuptiActivityGetNumDroppedRecords) &&
	       FIND(library, cuptiActivityPushExternalCorrelationId) &&
	       FIND(library, cuptiActivityPopExternalCorrelationId) &&
	       FIND(library, cuptiGetTimestamp) && FIND(library, cuptiGetContextId) &&
	       FIND(library, cuptiGetStreamIdEx) && FIND(library, cuptiGetVersion);
}

/* --- records. The lock is held. */

static void *reserve_record(size_t size)
{
	struct piece *p = state.last;
	void *at;

	if (!p || sizeof(p->bytes) - p->size < size) {
		p = state.count < PIECES_MAX ? malloc(sizeof(*p)) : NULL;
		if (!p) {
			state.dropped++;
			return NULL;
		}
		p->next = NULL;
		p->size = 0;
		*state.end = p;
		state.end = &p->next;
		state.last = p;
		state.count++;
	}
	at = p->bytes + p->size;
	p->size += size;
	return at;
}

/* The number of @name; its text goes ahead of the first record that has it. 0: unknown. */
static uint32_t number_of(const char *name)
{
	size_t length = name ? strnlen(name, CK_ACTIVITY_NAME_MAX) : 0;
	struct ck_activity *r;
	uintptr_t number;
	size_t size;

	if (length == 0 || !state.names)
		return 0;
	number = (uintptr_t)ck_map_find(state.names, name, length);
	if (number)
		return (uint32_t)number;
	number = ck_map_count(state.names) + 1;
	size = CK_ALIGN_UP(sizeof(*r) + length, 8ul);
	r = reserve_record(size);
	if (!r || ck_map_insert(state.names, name, length, (void *)number) < 0)
		return 0;
	memset(r, 0, size);
	r->kind = CK_ACTIVITY_NAME;
	r->size = (uint32_t)size;
	r->name = (uint32_t)number;
	r->length = (uint32_t)length;
	memcpy(r + 1, name, length);
	return (uint32_t)number;
}

static void on_request(uint8_t **buffer, size_t *size, size_t *records)
{
	*buffer = aligned_alloc(8, BUFFER_SIZE);
	*size = *buffer ? BUFFER_SIZE : 0;
	*records = 0;
}

static void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	const struct cks_profile_source source = {state.version, number_of};
	struct ck_activity r, *to;
	void *record = NULL;
	size_t lost = 0;

	(void)size;
	ck_lock(&state.lock);
	while (cupti.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
		if (!cks_profile_translate(&r, record, &source))
			continue;
		to = reserve_record(sizeof(r));
		if (to)
			*to = r;
	}
	if (cupti.cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS)
		state.dropped += lost;
	ck_unlock(&state.lock);
	free(buffer);
}

/* --- set-up */

static void open_cupti(void)
{
	void *library = cks_driver_emulated() ? cks_driver_library() : open_real();
	CUptiResult ret = CUPTI_ERROR_NOT_INITIALIZED;

	if (!library) {
		ck_warn("a client profiles, but there is no CUPTI to record its kernels: %s. "
			"Install CUPTI of the server's CUDA, or name the library: "
			"CRICKET_DEBUG=cupti=PATH",
			dlerror());
		return;
	}
	if (find_all(library) && !cupti.cuptiGetVersion(&state.version))
		ret = cupti.cuptiActivityRegisterCallbacks(on_request, on_complete);
	if (ret)
		ck_warn("a client profiles, but CUPTI does not start: error %d", ret);
	state.names = ck_map_create();
	state.open = ret == CUPTI_SUCCESS;
}

void cks_profile_push(uint64_t id)
{
	cupti.cuptiActivityPushExternalCorrelationId(ID_KIND, id);
}

void cks_profile_pop(void)
{
	uint64_t id;

	cupti.cuptiActivityPopExternalCorrelationId(ID_KIND, &id);
}

/* Enable or disable the kinds in which @wanted differs from the enabled ones. kinds_lock is
 * held. */
static CUptiResult set_kinds(uint64_t wanted)
{
	uint64_t changed = wanted ^ state.enabled;
	CUptiResult ret, first = CUPTI_SUCCESS;

	for (uint32_t kind = 0; kind < CUPTI_ACTIVITY_KIND_END; kind++) {
		uint64_t bit = 1ull << kind;
		bool to = wanted & bit;

		if (!(changed & bit))
			continue;
		ret = to ? cupti.cuptiActivityEnable(kind) : cupti.cuptiActivityDisable(kind);
		if (ret == CUPTI_SUCCESS)
			state.enabled ^= bit;
		else
			ck_info("CUPTI does not %s records of kind %u: error %d",
				to ? "enable" : "disable", kind, ret);
		if (!first)
			first = ret;
	}
	return first;
}

/* CUPTI notes external ids beside records of driver calls only. */
CUresult ck_serve_profile(struct cks_request *q, ck_profile_args *a, ck_profile_res *res)
{
	const uint64_t known =
		1ull << CUPTI_ACTIVITY_KIND_MEMCPY | 1ull << CUPTI_ACTIVITY_KIND_MEMSET |
		1ull << CUPTI_ACTIVITY_KIND_MEMCPY2 | 1ull << CUPTI_ACTIVITY_KIND_KERNEL |
		1ull << CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL |
		1ull << CUPTI_ACTIVITY_KIND_OVERHEAD | 1ull << CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
	uint64_t wanted = a->kinds & known;

	(void)q;
	pthread_once(&state.once, open_cupti);
	if (!state.open) {
		res->result = CUPTI_ERROR_NOT_INITIALIZED;
		return CUDA_SUCCESS;
	}
	if (wanted)
		wanted |= 1ull << CUPTI_ACTIVITY_KIND_DRIVER |
			  1ull << CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
	ck_lock(&state.kinds_lock);
	res->result = set_kinds(wanted);
	atomic_store(&cks_profile_on, wanted != 0);
	ck_unlock(&state.kinds_lock);
	return CUDA_SUCCESS;
}

/* The clock of the records, for the client to compare with its own. */
CUresult ck_serve_profile_clock(struct cks_request *q, ck_profile_clock_args *a,
				ck_profile_clock_res *res)
{
	uint64_t now = 0;

	(void)q, (void)a;
	if (state.open)
		cupti.cuptiGetTimestamp(&now);
	res->now = now;
	return CUDA_SUCCESS;
}

/* CUPTI's numbers of the caller's context and of a stream in it, as records have them. */
CUresult ck_serve_profile_stream(struct cks_request *q, ck_profile_stream_args *a,
				 ck_profile_stream_res *res)
{
	CUcontext context = cks_handles_get(q->session->handles, q->ctx, CK_KIND_CONTEXT);
	CUstream stream;

	if (!state.open || !context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!cks_stream_find(q, a->stream, &stream))
		return CUDA_ERROR_INVALID_HANDLE;
	if (cupti.cuptiGetContextId(context, &res->context) ||
	    cupti.cuptiGetStreamIdEx(context, stream, 0, &res->number))
		return CUDA_ERROR_UNKNOWN;
	return CUDA_SUCCESS;
}

CUresult ck_serve_profile_graph(struct cks_request *q, ck_profile_graph_args *a,
				ck_profile_graph_res *res)
{
	CUptiResult ret = CUPTI_ERROR_NOT_SUPPORTED;
	CUgraphExec exec;
	CUgraph graph;

	if (!state.open)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (cks_exec_find(q, a->graph, &exec)) {
		if (cupti.cuptiGetGraphExecId)
			ret = cupti.cuptiGetGraphExecId(exec, &res->number);
	} else if (cks_graph_find(q, a->graph, &graph)) {
		if (cupti.cuptiGetGraphId)
			ret = cupti.cuptiGetGraphId(graph, &res->number);
	} else {
		return CUDA_ERROR_INVALID_HANDLE;
	}
	return ret ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

/* The first piece that waits; a client asks until there is none. */
CUresult ck_serve_profile_fetch(struct cks_request *q, ck_profile_fetch_args *a,
				ck_profile_fetch_res *res)
{
	struct piece *p;

	(void)q;
	if (state.open && a->flush)
		cupti.cuptiActivityFlushAll(a->flush > 1 ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
	ck_lock(&state.lock);
	p = state.first;
	if (p) {
		state.first = p->next;
		state.count--;
		if (!state.first) {
			state.end = &state.first;
			state.last = NULL;
		}
	}
	res->more = state.first != NULL;
	res->dropped = state.dropped;
	state.dropped = 0;
	ck_unlock(&state.lock);
	if (!p)
		return CUDA_SUCCESS;
	res->records.records_val = malloc(p->size);
	if (res->records.records_val) {
		memcpy(res->records.records_val, p->bytes, p->size);
		res->records.records_len = (u_int)p->size;
	}
	free(p);
	return res->records.records_val ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
