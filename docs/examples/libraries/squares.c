/*
 * squares.c - one allocation over the GPUs of several processes: libwcm. Each process writes a
 * number into its own chunk, and reads those of all.
 *
 *     squares RANK SIZE      SIZE times, with RANK from 0 to SIZE - 1, from the same shell
 *     mpirun -n 4 squares    rank and size are what mpirun says
 */
#include <stdio.h>
#include <stdlib.h>
#include <wcm.h>

static int failed(int status, const char *what)
{
	if (status != WCM_OK)
		fprintf(stderr, "squares: %s: %s\n", what, wcm_strerror(status));
	return status != WCM_OK;
}

/* A read into ordinary memory waits for the copies before it, as cuMemcpyAsync does. */
static int read_chunk(wcm_t memory, const wcm_info *info, int chunk, uint64_t *number)
{
	return failed(wcm_copy_from(number, memory, (size_t)chunk * info->chunk_size,
				    sizeof(*number), NULL),
		      "wcm_copy_from");
}

/* Chunk i of the memory is in the GPU of rank i. */
static int use(wcm_group *group, wcm_t memory)
{
	uint64_t number = (uint64_t)wcm_rank(group) * (uint64_t)wcm_rank(group);
	wcm_info info;

	if (failed(wcm_stat(memory, &info), "wcm_stat") ||
	    failed(wcm_copy_to(memory, (size_t)info.chunk * info.chunk_size, &number,
			       sizeof(number), NULL),
		   "wcm_copy_to") ||
	    read_chunk(memory, &info, info.chunk, &number) ||
	    failed(wcm_barrier(group), "wcm_barrier"))
		return 1;
	for (int i = 0; i < info.chunk_count; i++) {
		if (read_chunk(memory, &info, i, &number))
			return 1;
		printf("%llu%c", (unsigned long long)number,
		       i + 1 < info.chunk_count ? ' ' : '\n');
	}
	return 0;
}

int main(int argc, char **argv)
{
	int rank = argc > 2 ? atoi(argv[1]) : -1, size = argc > 2 ? atoi(argv[2]) : 0, bad;
	wcm_group *group;
	wcm_t memory;

	if (failed(wcm_init(NULL, rank, size, &group), "wcm_init"))
		return 1;
	size = wcm_size(group);
	bad = failed(wcm_malloc(group, (size_t)size * 256, 0, NULL, 0, &memory), "wcm_malloc") ||
	      use(group, memory) || failed(wcm_free(memory), "wcm_free");
	wcm_finalize(group);
	return bad;
}
