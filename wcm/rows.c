/*
 * wcm/rows.c - gather, scatter and embedding: arguments are checked here, and given to the kernels
 * of kernels.cu.
 */
#include <stdio.h>
#include <stdlib.h>

#include "util/log.h"
#include "util/util.h"
#include "wcm/lib.h"
#include "wcm/rows_job.h"

CK_LOG_DEFINE("wcm");

#define THREADS 256
#define BLOCKS_A_PROCESSOR 32 /* further rows are walked to */

/* kernels.ptx, with a NUL behind it. */
extern const char ck_wcm_kernels_ptx[];
__asm__(".pushsection .rodata\n"
	".hidden ck_wcm_kernels_ptx\n"
	".global ck_wcm_kernels_ptx\n"
	"ck_wcm_kernels_ptx:\n"
	".incbin \"wcm/kernels.ptx\"\n"
	".byte 0\n"
	".popsection");

enum kind { GATHER, SCATTER, EMBED, KINDS };
enum { WIDTHS = 5, CONVERT = WIDTHS, VARIANTS }; /* of 1, 2, 4, 8, 16 bytes, and conversion */

struct ck_wcm_kernels {
	CUmodule module;
	unsigned int blocks;			  /* most of a launch */
	CUfunction functions[KINDS][2][VARIANTS]; /* found when first used; [plain or chunked] */
};

/* --- the kernels of a group */

/* The group's context is current and its lock held. */
static int load_kernels(wcm_group *g)
{
	struct ck_wcm_kernels *k = calloc(1, sizeof(*k));
	int status, processors = 1;

	if (!k)
		return WCM_ENOMEM;
	g->driver->cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
					g->device);
	k->blocks = (unsigned int)ck_max(processors, 1) * BLOCKS_A_PROCESSOR;
	status = ck_wcm_status_of(g->driver->cuModuleLoadData(&k->module, ck_wcm_kernels_ptx),
				  "cuModuleLoadData");
	if (status == WCM_OK)
		g->kernels = k;
	else
		free(k);
	return status;
}

static void name_of(enum kind kind, bool chunked, int variant, char *name, size_t room)
{
	static const char *const kinds[KINDS] = {"gather", "scatter", "embed"};
	static const char *const variants[VARIANTS] = {"1", "2", "4", "8", "16", "convert"};
	const char *last = kind == EMBED ? variant ? "double" : "float" : variants[variant];

	snprintf(name, room, "wcm_%s_%s_%s", kinds[kind], chunked ? "chunked" : "plain", last);
}

/* The group's context is current. */
static int find_kernel(wcm_group *g, enum kind kind, bool chunked, int variant,
		       CUfunction *function)
{
	int status = WCM_OK;
	char name[64];
	CUfunction *f;

	pthread_mutex_lock(&g->lock);
	if (!g->kernels)
		status = load_kernels(g);
	if (status == WCM_OK) {
		f = &g->kernels->functions[kind][chunked][variant];
		name_of(kind, chunked, variant, name, sizeof(name));
		if (!*f)
			status = ck_wcm_status_of(
				g->driver->cuModuleGetFunction(f, g->kernels->module, name), name);
		*function = *f;
	}
	pthread_mutex_unlock(&g->lock);
	return status;
}

void ck_wcm_kernels_free(wcm_group *g)
{
	if (!g->kernels)
		return;
	if (ck_wcm_enter(g) == WCM_OK) {
		g->driver->cuModuleUnload(g->kernels->module);
		ck_wcm_leave(g);
	}
	free(g->kernels);
	g->kernels = NULL;
}

/* --- checks */

static bool is_float(int type)
{
	return type >= WCM_HALF && type <= WCM_DOUBLE;
}

/*
 * The place of a table in bytes, within @room bytes (0: plain memory, whose end is not known).
 */
static int take_table(const wcm_table *t, uint64_t room, struct ck_wcm_rows_job *job)
{
	uint64_t element = wcm_type_size(t->type), last, end;
	int64_t stride = t->stride ? t->stride : t->columns;

	if (!element || t->rows < 0 || t->columns < 1 || stride < t->columns || t->offset < 0 ||
	    (!t->chunked && !t->plain && t->rows))
		return WCM_EINVAL;
	if (ck_mul_overflow((uint64_t)stride, element, &last) ||
	    ck_mul_overflow(last, (uint64_t)ck_max(t->rows, (int64_t)1) - 1, &end) ||
	    ck_mul_overflow((uint64_t)t->columns, element, &last) ||
	    ck_add_overflow(end, last, &end) ||
	    ck_mul_overflow((uint64_t)t->offset, element, &last) ||
	    ck_add_overflow(end, last, &end))
		return WCM_EINVAL;
	if (t->chunked && t->rows && end > room)
		return WCM_EINVAL;
	job->offset = (uint64_t)t->offset * element;
	job->stride = (uint64_t)stride * element;
	job->row_size = (uint64_t)t->columns * element;
	job->rows = t->rows;
	job->columns = t->columns;
	job->type = t->type;
	job->whole = 1;
	return WCM_OK;
}

/* Of chunked memory: whether each row lies in one chunk. */
static void take_chunks(wcm_t m, struct ck_wcm_rows_job *job)
{
	uint64_t size = m->host.chunk_size;

	job->table = (void *)(uintptr_t)m->device_handle;
	job->bad = (void *)(uintptr_t)(m->device_handle + CK_WCM_BAD_OFFSET);
	job->whole =
		size % job->stride == 0 && job->offset % job->stride + job->row_size <= job->stride;
}

static int take_indices(const wcm_indices *i, const void **data, long long *count, int *wide)
{
	if (!i || i->count < 0 || (!i->data && i->count) ||
	    (i->type != WCM_INT32 && i->type != WCM_INT64))
		return WCM_EINVAL;
	*data = i->data;
	*count = i->count;
	*wide = i->type == WCM_INT64;
	return WCM_OK;
}

static int take_rows(const wcm_table *t, const wcm_rows *r, int64_t count,
		     struct ck_wcm_rows_job *job)
{
	uint64_t element = r ? wcm_type_size(r->type) : 0, size;
	int64_t stride;

	if (!element || (!r->data && count) || r->stride < 0)
		return WCM_EINVAL;
	stride = r->stride ? r->stride : t->columns;
	if (stride < t->columns || ck_mul_overflow((uint64_t)stride, element, &job->data_stride) ||
	    ck_mul_overflow(job->data_stride, (uint64_t)count, &size))
		return WCM_EINVAL;
	if (r->type != t->type && (!is_float(r->type) || !is_float(t->type)))
		return WCM_EINVAL;
	job->data = r->data;
	job->data_type = r->type;
	return WCM_OK;
}

/* The greatest power of two, 16 at most, that divides all addresses and sizes of a job. */
static int common_width(const struct ck_wcm_rows_job *job, uint64_t chunk_size, bool chunked)
{
	uint64_t all = (uint64_t)(uintptr_t)job->data | job->data_stride | job->row_size |
		       job->offset | job->stride | 16;

	all |= chunked ? chunk_size : (uint64_t)(uintptr_t)job->table;
	return __builtin_ctzl(all);
}

/* Threads of a row that has @units: up to a block. */
static int lanes_of(uint64_t units)
{
	int lanes = 1;

	while (lanes < THREADS && (uint64_t)lanes < units)
		lanes *= 2;
	return lanes;
}

/* How many elements conversions take at a time: 4 where both sides are aligned for it. */
static int vector_of(const struct ck_wcm_rows_job *job, uint64_t chunk_size, bool chunked)
{
	uint64_t table = ck_min(4 * wcm_type_size(job->type), (size_t)16);
	uint64_t data = ck_min(4 * wcm_type_size(job->data_type), (size_t)16);

	if (job->columns % 4 || (job->offset | job->stride) % table ||
	    ((uint64_t)(uintptr_t)job->data | job->data_stride) % data)
		return 1;
	/* rows that lie in two chunks could part a vector too */
	if (chunked ? !job->whole || chunk_size % table : (uintptr_t)job->table % table)
		return 1;
	return 4;
}

/* --- launching */

/* Which kernel, and how many threads share a row. */
static int choose_kernel(const struct ck_wcm_rows_job *given, enum kind kind, uint64_t chunk_size,
			 bool chunked, struct ck_wcm_rows_job *job)
{
	size_t element = wcm_type_size(given->type);

	*job = *given;
	if (kind != EMBED && job->type == job->data_type) {
		int width = common_width(job, chunk_size, chunked);

		job->lanes = lanes_of(job->row_size >> width);
		return width;
	}
	if (chunked && chunk_size % element)
		return -1; /* an element would lie in two chunks */
	job->vector = vector_of(job, chunk_size, chunked);
	job->lanes = lanes_of((uint64_t)(job->columns / job->vector));
	if (kind == EMBED)
		return job->type == WCM_DOUBLE && job->data_type == WCM_DOUBLE;
	return CONVERT;
}

static int launch_kernel(wcm_group *g, const struct ck_wcm_rows_job *given, enum kind kind, wcm_t m,
			 void *stream)
{
	uint64_t chunk_size = m ? m->host.chunk_size : 0, rows, a_block;
	struct ck_wcm_rows_job job;
	int variant = choose_kernel(given, kind, chunk_size, m != NULL, &job), status;
	void *params[] = {&job};
	CUfunction function;
	unsigned int blocks;

	if (variant < 0)
		return WCM_EINVAL;
	rows = (uint64_t)(kind == EMBED ? job.bag_count : job.count);
	if (rows == 0)
		return WCM_OK;
	status = ck_wcm_enter(g);
	if (status != WCM_OK)
		return status;
	status = find_kernel(g, kind, m != NULL, variant, &function);
	if (status == WCM_OK) {
		a_block = (uint64_t)(THREADS / job.lanes);
		blocks = (unsigned int)ck_min((rows + a_block - 1) / a_block,
					      (uint64_t)g->kernels->blocks);
		status = ck_wcm_status_of(g->driver->cuLaunchKernel(function, blocks, 1, 1, THREADS,
								    1, 1, 0, (CUstream)stream,
								    params, NULL),
					  "cuLaunchKernel");
	}
	ck_wcm_leave(g);
	return status;
}

static int run_on(wcm_group *g, wcm_t m, const wcm_table *table, const wcm_rows *rows,
		  enum kind kind, struct ck_wcm_rows_job *job, void *stream)
{
	int status = take_table(table, m ? m->info.total_size : 0, job);

	if (status == WCM_OK)
		status = take_rows(table, rows, kind == EMBED ? job->bag_count : job->count, job);
	if (status != WCM_OK)
		return status;
	if (m)
		take_chunks(m, job);
	else
		job->table = table->plain;
	return launch_kernel(g, job, kind, m, stream);
}

/* Plain memory is of the thread's current group; bad indices of it are not counted. */
static int run_job(const wcm_table *table, const wcm_rows *rows, enum kind kind,
		   struct ck_wcm_rows_job *job, void *stream)
{
	wcm_group *g;
	int status;
	wcm_t m;

	if (!table)
		return WCM_EINVAL;
	m = table->chunked ? ck_wcm_memory_get(table->chunked) : NULL;
	g = m ? m->group : table->chunked ? NULL : wcm_current();
	if (!g)
		return WCM_EINVAL;
	status = run_on(g, m, table, rows, kind, job, stream);
	if (m)
		ck_wcm_memory_put(m);
	return status;
}

int wcm_gather(const wcm_table *table, const wcm_indices *indices, const wcm_rows *rows,
	       void *stream)
{
	struct ck_wcm_rows_job job = {0};

	if (take_indices(indices, &job.indices, &job.count, &job.indices_wide) != WCM_OK)
		return WCM_EINVAL;
	return run_job(table, rows, GATHER, &job, stream);
}

int wcm_scatter(const wcm_table *table, const wcm_indices *indices, const wcm_rows *rows,
		void *stream)
{
	struct ck_wcm_rows_job job = {0};

	if (take_indices(indices, &job.indices, &job.count, &job.indices_wide) != WCM_OK)
		return WCM_EINVAL;
	return run_job(table, rows, SCATTER, &job, stream);
}

int wcm_embedding(const wcm_table *table, const wcm_indices *indices, const wcm_indices *bags,
		  int mode, const wcm_rows *rows, void *stream)
{
	struct ck_wcm_rows_job job = {.mean = mode == WCM_MEAN};

	if (take_indices(indices, &job.indices, &job.count, &job.indices_wide) != WCM_OK ||
	    take_indices(bags, &job.bags, &job.bag_count, &job.bags_wide) != WCM_OK ||
	    (mode != WCM_SUM && mode != WCM_MEAN) || !table || !is_float(table->type) || !rows ||
	    !is_float(rows->type))
		return WCM_EINVAL;
	return run_job(table, rows, EMBED, &job, stream);
}
