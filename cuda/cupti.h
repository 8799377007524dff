/*
 * cuda/cupti.h - the parts of CUPTI's activity interface that Cricket offers and uses, in the
 * layout of CUDA 13.
 *
 * CUDA 12's records are these with fewer fields at the end, so programs that were built for either
 * read them. tests/unit/test_cuda_cupti.c has the offsets in CUPTI's own headers.
 */
#ifndef CK_CUDA_CUPTI_H
#define CK_CUDA_CUPTI_H

#include <stddef.h>
#include <stdint.h>

typedef int CUptiResult;

enum {
	CUPTI_SUCCESS = 0,
	CUPTI_ERROR_INVALID_PARAMETER = 1,
	CUPTI_ERROR_INVALID_OPERATION = 7,
	CUPTI_ERROR_OUT_OF_MEMORY = 8,
	CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
	CUPTI_ERROR_NOT_INITIALIZED = 15,
	CUPTI_ERROR_QUEUE_EMPTY = 18,
	CUPTI_ERROR_INVALID_KIND = 21,
	CUPTI_ERROR_NOT_SUPPORTED = 27,
	CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39,
	CUPTI_ERROR_UNKNOWN = 999,
};

enum {
	CUPTI_ACTIVITY_KIND_INVALID = 0,
	CUPTI_ACTIVITY_KIND_MEMCPY = 1,
	CUPTI_ACTIVITY_KIND_MEMSET = 2,
	CUPTI_ACTIVITY_KIND_KERNEL = 3,
	CUPTI_ACTIVITY_KIND_DRIVER = 4,
	CUPTI_ACTIVITY_KIND_RUNTIME = 5,
	CUPTI_ACTIVITY_KIND_DEVICE = 8,
	CUPTI_ACTIVITY_KIND_CONTEXT = 9,
	CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
	CUPTI_ACTIVITY_KIND_MARKER = 12,
	CUPTI_ACTIVITY_KIND_OVERHEAD = 17,
	CUPTI_ACTIVITY_KIND_MEMCPY2 = 22, /* from one device to another */
	CUPTI_ACTIVITY_KIND_SYNCHRONIZATION = 38,
	CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION = 39,
	CUPTI_ACTIVITY_KIND_GRAPH_TRACE = 51,
	CUPTI_ACTIVITY_KIND_END = 64, /* of the kinds that a mask of 64 bits can name */
};

enum {
	CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN = 0,
	CUPTI_ACTIVITY_MEMCPY_KIND_HTOD = 1,
	CUPTI_ACTIVITY_MEMCPY_KIND_DTOH = 2,
	CUPTI_ACTIVITY_MEMCPY_KIND_DTOD = 8,
	CUPTI_ACTIVITY_MEMCPY_KIND_HTOH = 9,
	CUPTI_ACTIVITY_MEMCPY_KIND_PTOP = 10,
};

enum {
	CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN = 0,
	CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE = 1,
	CUPTI_ACTIVITY_MEMORY_KIND_PINNED = 2,
	CUPTI_ACTIVITY_MEMORY_KIND_DEVICE = 3,
};

enum {
	CUPTI_EXTERNAL_CORRELATION_KIND_INVALID = 0,
	CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0 = 3,
	CUPTI_EXTERNAL_CORRELATION_KIND_END = 8, /* more than CUPTI has */
};

enum {
	CUPTI_CB_DOMAIN_DRIVER_API = 1,
	CUPTI_CB_DOMAIN_RUNTIME_API = 2,
	CUPTI_CB_DOMAIN_RESOURCE = 3,
	CUPTI_CB_DOMAIN_SYNCHRONIZE = 4,
	CUPTI_CB_DOMAIN_NVTX = 5,
	CUPTI_CB_DOMAIN_STATE = 6,
};

enum {
	CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE = 1,
	CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT = 2,
	CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE = 3,
	CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE = 4,
};
#define CUPTI_SYNCHRONIZATION_INVALID_VALUE UINT32_MAX
#define CUPTI_ACTIVITY_COMPUTE_API_CUDA 1

/* What a subscriber gets at the beginning (site 0) and the end (1) of a call. */
struct ck_cupti_callback {
	int site;
	const char *function;
	const void *given;
	void *result;
	const char *symbol; /* of a launch: the kernel's name */
	void *context;
	uint32_t context_number;
	uint64_t *data; /* the subscriber's own, from the beginning to the end */
	uint32_t correlation;
};

enum {
	CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER = 1,
	CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH = 1 << 16,
};

enum {
	CUPTI_ACTIVITY_OBJECT_UNKNOWN = 0,
	CUPTI_ACTIVITY_OBJECT_PROCESS = 1,
	CUPTI_ACTIVITY_OBJECT_THREAD = 2,
	CUPTI_ACTIVITY_OBJECT_DEVICE = 3,
	CUPTI_ACTIVITY_OBJECT_CONTEXT = 4,
	CUPTI_ACTIVITY_OBJECT_STREAM = 5,
};
#define CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS 1u
#define CUPTI_ACTIVITY_FLAG_MARKER_START 2u
#define CUPTI_ACTIVITY_FLAG_MARKER_END 4u

#define CUPTI_ACTIVITY_FLAG_FLUSH_FORCED 1u

/* Each record begins with its kind. */
struct ck_cupti_kernel {
	uint32_t kind;
	uint8_t cache_config;
	uint8_t shared_memory_config;
	uint16_t registers_per_thread;
	uint32_t partitioned_requested, partitioned_executed;
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid[3], block[3];
	int32_t static_shared, dynamic_shared;
	uint32_t local_per_thread, local_total;
	uint32_t correlation;
	int64_t grid_id;
	const char *name;
	void *reserved;
	uint64_t queued, submitted;
	uint8_t launch_type, carveout_requested, carveout, padding;
	uint32_t shared_executed;
	uint64_t graph_node;
	uint32_t shared_limit;
	uint32_t graph;
	void *access_policy;
	uint32_t channel, channel_type;
	uint32_t cluster[3];
	uint32_t cluster_policy;
	uint64_t local_total_64;
	uint32_t cluster_potential, clusters_active;
	uint8_t device_launched, padding_end[7];
} __attribute__((aligned(8)));

struct ck_cupti_memcpy {
	uint32_t kind;
	uint8_t copy_kind, src_kind, dst_kind, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation, runtime_correlation, pad;
	void *reserved;
	uint64_t graph_node;
	uint32_t graph, channel, channel_type;
	uint8_t device_launched, padding[3];
	uint64_t copies;
} __attribute__((aligned(8)));

struct ck_cupti_peer {
	uint32_t kind;
	uint8_t copy_kind, src_kind, dst_kind, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream;
	uint32_t src_device, src_context, dst_device, dst_context;
	uint32_t correlation;
	void *reserved;
	uint64_t graph_node;
	uint32_t graph, channel, channel_type, padding;
} __attribute__((aligned(8)));

struct ck_cupti_memset {
	uint32_t kind, value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint16_t flags, memory_kind;
	uint32_t pad;
	void *reserved;
	uint64_t graph_node;
	uint32_t graph, channel, channel_type;
	uint8_t device_launched, padding[3];
} __attribute__((aligned(8)));

/* A call of the driver or of the runtime. */
struct ck_cupti_api {
	uint32_t kind, call;
	uint64_t start, end;
	uint32_t process, thread, correlation, result;
} __attribute__((aligned(8)));

/* A wait, or a stream's order to wait. */
struct ck_cupti_sync {
	uint32_t kind, type;
	uint64_t start, end;
	uint32_t correlation, context, stream, event;
	uint64_t event_sync;
	uint32_t result, pad;
} __attribute__((aligned(8)));

/* A range begins or ends, or an instant is marked (NVTX). */
struct ck_cupti_marker {
	uint32_t kind, flags;
	uint64_t time;
	uint32_t id, object, process, thread, object_end, pad;
	const char *name, *domain;
} __attribute__((aligned(8)));

struct ck_cupti_context {
	uint32_t kind, context, device;
	uint16_t api, null_stream;
	uint32_t parent;
	uint8_t is_green, padding;
	uint16_t multiprocessors;
	uint32_t graphics_mode, padding_end;
} __attribute__((aligned(8)));

struct ck_cupti_device {
	uint32_t kind, flags;
	uint64_t bandwidth, memory;
	uint32_t constant_memory, l2_cache, warp, core_clock, copy_engines, multiprocessors;
	uint32_t max_ipc, max_warps, max_blocks, max_shared, max_registers;
	uint32_t block_registers, block_shared, block_threads, block_dim[3], grid_dim[3];
	uint32_t major, minor, device, ecc;
	uint8_t uuid[16];
	const char *name;
	uint8_t is_visible, is_mig, reserved[6];
	uint32_t gpu_instance, compute_instance;
	uint8_t mig_uuid[16];
	uint32_t is_numa_node, numa_node;
} __attribute__((aligned(8)));

struct ck_cupti_external {
	uint32_t kind, external_kind;
	uint64_t external;
	uint32_t correlation, reserved;
} __attribute__((aligned(8)));

/* Time that a profile, or the driver, takes beside the program's work. Before CUDA 12.2 it ends
 * with @end. */
struct ck_cupti_overhead {
	uint32_t kind, overhead, object;
	uint32_t id[3]; /* of a process and a thread; or of a device, a context and a stream */
	uint64_t start, end;
	uint32_t correlation, reserved;
	void *data;
} __attribute__((aligned(8)));

/* A launch of a graph as a whole. Early versions of CUDA 12 end with @reserved. */
struct ck_cupti_graph {
	uint32_t kind, correlation;
	uint64_t start, end;
	uint32_t device, graph, context, stream;
	void *reserved;
	uint32_t end_device, end_context;
} __attribute__((aligned(8)));

union ck_cupti_record {
	uint32_t kind;
	struct ck_cupti_kernel kernel;
	struct ck_cupti_memcpy copy;
	struct ck_cupti_peer peer;
	struct ck_cupti_memset fill;
	struct ck_cupti_api api;
	struct ck_cupti_external external;
	struct ck_cupti_sync sync;
	struct ck_cupti_marker marker;
	struct ck_cupti_context context;
	struct ck_cupti_device device;
	struct ck_cupti_overhead overhead;
	struct ck_cupti_graph graph;
};

/* Bytes of a record of @kind; 0: none of those here. */
static inline size_t ck_cupti_record_size(uint32_t kind)
{
	switch (kind) {
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		return sizeof(struct ck_cupti_memcpy);
	case CUPTI_ACTIVITY_KIND_MEMCPY2:
		return sizeof(struct ck_cupti_peer);
	case CUPTI_ACTIVITY_KIND_MEMSET:
		return sizeof(struct ck_cupti_memset);
	case CUPTI_ACTIVITY_KIND_KERNEL:
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		return sizeof(struct ck_cupti_kernel);
	case CUPTI_ACTIVITY_KIND_DRIVER:
	case CUPTI_ACTIVITY_KIND_RUNTIME:
		return sizeof(struct ck_cupti_api);
	case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
		return sizeof(struct ck_cupti_external);
	case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
		return sizeof(struct ck_cupti_sync);
	case CUPTI_ACTIVITY_KIND_MARKER:
		return sizeof(struct ck_cupti_marker);
	case CUPTI_ACTIVITY_KIND_CONTEXT:
		return sizeof(struct ck_cupti_context);
	case CUPTI_ACTIVITY_KIND_DEVICE:
		return sizeof(struct ck_cupti_device);
	case CUPTI_ACTIVITY_KIND_OVERHEAD:
		return sizeof(struct ck_cupti_overhead);
	case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
		return sizeof(struct ck_cupti_graph);
	default:
		return 0;
	}
}

/* The record at @*record, or behind it: how cuptiActivityGetNextRecord walks a buffer of ours. */
static inline CUptiResult ck_cupti_next(uint8_t *buffer, size_t valid, void **record)
{
	uint8_t *at = buffer;
	size_t size;

	if (!buffer || !record)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (*record)
		at = (uint8_t *)*record + ck_cupti_record_size(*(uint32_t *)*record);
	if (at < buffer || (size_t)(at - buffer) + sizeof(uint32_t) > valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	size = ck_cupti_record_size(*(uint32_t *)(void *)at);
	if (size == 0)
		return CUPTI_ERROR_INVALID_KIND;
	if (size > valid - (size_t)(at - buffer) || at == *record)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = at;
	return CUPTI_SUCCESS;
}

/* The second generation of the calls about buffers; both may grow. */
struct ck_cupti_request {
	size_t size; /* of this structure */
};
struct ck_cupti_complete {
	size_t size;
	uint64_t thread;
	void **layouts; /* of records whose fields the program has chosen: none */
	size_t layout_count;
};
struct ck_cupti_config {
	size_t size;
	struct {
		size_t size, count;
		const int *fields; /* that the program has chosen */
	} selection;
	void *options;
};
typedef void (*ck_cupti_request_v2_fn)(uint8_t **buffer, size_t *size, size_t *records,
				       struct ck_cupti_request *info);
typedef void (*ck_cupti_complete_v2_fn)(uint8_t *buffer, size_t size, size_t valid,
					struct ck_cupti_complete *info);
typedef void (*ck_cupti_callback_fn)(void *userdata, uint32_t domain, uint32_t call,
				     const struct ck_cupti_callback *data);
typedef void (*ck_cupti_request_fn)(uint8_t **buffer, size_t *size, size_t *records);
/* The first two are a context and a stream's number. */
typedef void (*ck_cupti_complete_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
				     size_t valid);

#endif
