/*
 * chunked_test [--ranks N] [--threads] [--backing ipc|vmm|auto] [--rounds N] [--tell] - memory over
 * all ranks and over some: written, gathered, scattered, read, compared. Prints one line and ends
 * with 0 when all was right.
 *
 * It uses libwcm alone, so it needs neither nvcc nor a CUDA header; plain device memory is memory
 * of one rank.
 */
#include <getopt.h>

#include "ranks.h"

#define ROWS 200
#define COLUMNS 20 /* 32-bit numbers: rows of 80 bytes */
#define ROW (COLUMNS * sizeof(int32_t))

static int backing = WCM_AUTO, rounds = 4, tell;

/* Memory of this rank alone, which is plain to its kernels. */
struct plain {
	wcm_t memory;
	void *address;
};

static int plain_new(wcm_group *g, size_t size, struct plain *p)
{
	int alone = wcm_rank(g), status;

	status = report_status(wcm_malloc(g, size, 0, &alone, 1, &p->memory),
			       "wcm_malloc of one rank");
	return status ? status
		      : report_status(wcm_local(p->memory, &p->address, NULL), "wcm_local");
}

static int32_t number_of(int64_t row, int column, int round)
{
	return (int32_t)(row * 1000 + column + round * 7);
}

/* Rank number @part of @parts scatters its rows, and all gather all, backwards. */
static int check_rows(wcm_group *g, wcm_t m, int part, int parts, int round, const int *ranks,
		      int *wrong)
{
	static __thread int32_t rows[ROWS * COLUMNS];
	static __thread int64_t indices[ROWS];
	struct plain data, index;
	wcm_table table = {.chunked = m, .type = WCM_INT32, .rows = ROWS, .columns = COLUMNS};
	wcm_indices by = {.type = WCM_INT64};
	wcm_rows to = {.type = WCM_INT32};
	wcm_t meet;
	int count = 0;

	if (plain_new(g, sizeof(rows), &data) || plain_new(g, sizeof(indices), &index))
		return 1;
	for (int64_t r = part; r < ROWS; r += parts, count++) {
		indices[count] = r;
		for (int k = 0; k < COLUMNS; k++)
			rows[count * COLUMNS + k] = number_of(r, k, round);
	}
	to.data = data.address;
	by.data = index.address;
	by.count = count;
	if (report_status(wcm_copy_to(index.memory, 0, indices, sizeof(indices), NULL),
			  "indices") ||
	    report_status(wcm_copy_to(data.memory, 0, rows, sizeof(rows), NULL), "rows") ||
	    report_status(wcm_scatter(&table, &by, &to, NULL), "wcm_scatter") ||
	    report_status(wcm_copy_from(rows, m, 0, sizeof(int32_t), NULL), "wcm_copy_from"))
		return 1;
	/* after this barrier, the data that the others wrote is there */
	if (report_status(wcm_malloc(g, 1, 0, ranks, ranks ? parts : 0, &meet), "wcm_malloc") ||
	    wcm_free(meet))
		return 1;
	for (int64_t i = 0; i < ROWS; i++)
		indices[i] = ROWS - 1 - i;
	by.count = ROWS;
	if (report_status(wcm_copy_to(index.memory, 0, indices, sizeof(indices), NULL),
			  "indices") ||
	    report_status(wcm_gather(&table, &by, &to, NULL), "wcm_gather") ||
	    report_status(wcm_copy_from(rows, data.memory, 0, sizeof(rows), NULL), "rows back") ||
	    wcm_free(index.memory) || wcm_free(data.memory)) /* these wait for the device */
		return 1;
	for (int i = 0; i < ROWS; i++) {
		for (int k = 0; k < COLUMNS; k++)
			*wrong += rows[i * COLUMNS + k] != number_of(ROWS - 1 - i, k, round);
	}
	return 0;
}

/* Memory of all ranks, then of the even and of the odd ones, the later first. */
static int round_of(wcm_group *g, int round, int *wrong)
{
	int rank = wcm_rank(g), size = wcm_size(g), ranks[WCM_RANKS_MAX], count = 0, own = 0;
	wcm_t all, some;

	for (int i = size - 1; i >= 0; i--) {
		if (i % 2 != rank % 2)
			continue;
		if (i == rank)
			own = count;
		ranks[count++] = i;
	}
	if (report_status(wcm_malloc(g, ROWS * ROW, ROW, NULL, 0, &all), "wcm_malloc") ||
	    report_status(wcm_malloc(g, ROWS * ROW, ROW, ranks, count, &some),
			  "wcm_malloc of some"))
		return 1;
	if (check_rows(g, some, own, count, round, ranks, wrong) ||
	    check_rows(g, all, rank, size, round + 1, NULL, wrong))
		return 1;
	return (round % 2 ? wcm_free(all) || wcm_free(some) : wcm_free(some) || wcm_free(all)) != 0;
}

static int run_rank(struct rank *r)
{
	uint64_t total;
	wcm_group *g;
	int wrong = 0, status = join_group(r, backing, WCM_ANY_DEVICE, &g);

	for (int i = 0; i < rounds && !status; i++) {
		status = round_of(g, i, &wrong);
		if (i == 0 && tell && !status && wcm_rank(g) == 0) {
			puts("begun");
			fflush(stdout);
		}
	}
	if (!status)
		status = report_status(wcm_aggregate(g, (uint64_t)wrong, &total, NULL),
				       "wcm_aggregate");
	if (!status && wcm_rank(g) == 0)
		printf("chunked_test: %d ranks, %s: %llu wrong\n", wcm_size(g),
		       wcm_backing_of(g) == WCM_IPC ? "ipc" : "vmm", (unsigned long long)total);
	if (!status)
		status = wcm_finalize(g) || total;
	return status != 0;
}

static int print_help(void)
{
	puts("Usage: chunked_test [OPTION]...\n"
	     "Write, gather, scatter, read and compare memory over all ranks and over some.\n\n"
	     "  --ranks N                ranks that it starts itself; else mpirun's, or one\n"
	     "  --threads                those are threads, not processes\n"
	     "  --backing ipc|vmm|auto   of the memory (auto)\n"
	     "  --rounds N               (4)\n"
	     "  --tell                   say \"begun\" after the first round\n"
	     "  --help\n\n"
	     "The exit status is 0 when all was right.");
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"ranks", required_argument, NULL, 'r'},
						{"threads", no_argument, NULL, 't'},
						{"backing", required_argument, NULL, 'b'},
						{"rounds", required_argument, NULL, 'n'},
						{"tell", no_argument, NULL, 'T'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	int ranks = 0, threads = 0, c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'r')
			ranks = count_of(optarg);
		else if (c == 't')
			threads = 1;
		else if (c == 'T')
			tell = 1;
		else if (c == 'b')
			backing = backing_of(optarg);
		else if (c == 'n')
			rounds = count_of(optarg);
		else
			return c == 'h' ? print_help() : 2;
	}
	if (backing < 0 || rounds < 0 || optind < argc) {
		fputs("chunked_test: these options make no sense: see --help\n", stderr);
		return 2;
	}
	return run_ranks(ranks, threads, run_rank);
}
