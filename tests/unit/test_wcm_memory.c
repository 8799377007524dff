/*
 * tests/unit/test_wcm_memory.c - chunked memory: sizes, chunks, copies, lifetimes; ranks that
 * differ, go, or are killed. What was wrong with WholeMemory's is marked "defect".
 */
#include "tests/unit/wcm_world.h"

#include "emu/core/emu_api.h"

/* Byte number @i of what is written. */
static unsigned char pattern(size_t i)
{
	return (unsigned char)(i * 31 + (i >> 8) * 7 + 1);
}

static void fill(unsigned char *bytes, size_t offset, size_t size)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = pattern(offset + i);
}

static bool same(const unsigned char *bytes, size_t offset, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (bytes[i] != pattern(offset + i))
			return false;
	}
	return true;
}

/* Rank r writes its share of the whole, in pieces of an odd size, and then all read all. */
static void write_and_read(struct world *w, wcm_t m, size_t size)
{
	size_t share = size / (size_t)w->size + 1, from = share * (size_t)w->rank;
	size_t to = from + share < size ? from + share : size;
	unsigned char *bytes = malloc(size);

	expect(bytes);
	for (size_t at = from; at < to; at += 37) {
		size_t n = to - at < 37 ? to - at : 37;

		fill(bytes, at, n);
		expect_ok(wcm_copy_to(m, at, bytes, n, NULL));
		expect(cuStreamSynchronize(NULL) == 0);
	}
	expect_ok(wcm_barrier(w->group));
	memset(bytes, 0, size);
	expect_ok(wcm_copy_from(bytes, m, 0, size, NULL));
	expect(cuStreamSynchronize(NULL) == 0);
	expect(same(bytes, 0, size));
	free(bytes);
	expect_ok(wcm_barrier(w->group));
}

/* The tests' own copies and waits are in the device's primary context. */
static void enter(struct world *w)
{
	CUcontext context;

	expect(cuDevicePrimaryCtxRetain(&context, wcm_device(w->group)) == 0);
	expect(cuCtxSetCurrent(context) == 0);
}

static void leave(struct world *w)
{
	int device = wcm_device(w->group);

	expect_ok(wcm_finalize(w->group));
	expect(cuCtxSetCurrent(NULL) == 0);
	expect(cuDevicePrimaryCtxRelease_v2(device) == 0);
}

static const struct {
	size_t wanted, rounded;
} granularities[] = {{0, 256},	  {1, 256},   {64, 256},   {3, 48},	 {7, 112},    {100, 400},
		     {255, 4080}, {256, 256}, {257, 4112}, {1000, 2000}, {4096, 4096}};

static void role_sizes(struct world *w)
{
	static const size_t sizes[] = {0, 1, 2, 255, 256, 257, 4095, 10007};
	WholeChunkedMemoryHandle *host;
	wcm_info info;
	wcm_t m;

	world_join(w);
	enter(w);
	for (size_t i = 0; i < sizeof(granularities) / sizeof(granularities[0]); i++) {
		size_t size = sizes[i % 8], step;

		expect_ok(wcm_malloc(w->group, size, granularities[i].wanted, NULL, 0, &m));
		expect_ok(wcm_stat(m, &info));
		step = granularities[i].rounded * (size_t)w->size;
		expect(info.size == size && info.granularity == granularities[i].rounded);
		expect(info.total_size == ((size ? size : 1) + step - 1) / step * step);
		expect(info.chunk_size * (size_t)w->size == info.total_size);
		expect(info.chunk == w->rank && info.chunk_count == w->size && !info.lost);
		expect_ok(wcm_device_handle(m, WCM_HOST, &host));
		expect(host->chunk_size == info.chunk_size && host->chunk_count == w->size);
		write_and_read(w, m, info.total_size);
		expect_ok(wcm_free(m));
	}
	leave(w);
}

static void sizes_and_granularities(void **state)
{
	(void)state;
	world_run_all(3, role_sizes);
}

/* defect: reads of less than 256 elements were launched with no blocks */
static void role_small_copies(struct world *w)
{
	unsigned char bytes[256], back[256];
	wcm_t m;

	world_join(w);
	enter(w);
	expect_ok(wcm_malloc_exact(w->group, 1000, 17, NULL, 0, &m));
	for (size_t n = 1; n < 256; n++) {
		size_t offset = (n * 7 + (size_t)w->rank) % 700;

		if (n % (size_t)w->size == (size_t)w->rank) {
			fill(bytes, n, n);
			memset(back, 0, sizeof(back));
			expect_ok(wcm_copy_to(m, offset, bytes, n, NULL));
			expect_ok(wcm_copy_from(back, m, offset, n, NULL));
			expect(cuStreamSynchronize(NULL) == 0);
			expect(same(back, n, n) && (n == 255 || back[n + 1] == 0));
		}
		expect_ok(wcm_barrier(w->group));
	}
	leave(w);
}

static void copies_of_1_to_255_bytes_across_chunks(void **state)
{
	(void)state;
	world_run(PROCESSES, 2, WCM_IPC, role_small_copies);
	world_run(THREADS, 3, WCM_VMM, role_small_copies);
}

static void role_once(struct world *w)
{
	wcm_t m;

	world_join(w);
	enter(w);
	expect_ok(wcm_malloc(w->group, 5000, 100, NULL, 0, &m));
	write_and_read(w, m, 5000);
	expect_ok(wcm_free(m));
	leave(w);
}

static void one_to_sixteen_ranks(void **state)
{
	(void)state;
	for (int size = 1; size <= RANKS; size += size < 4 ? 1 : 4) {
		world_run(PROCESSES, size, size % 2 ? WCM_VMM : WCM_AUTO, role_once);
		world_run(THREADS, size, size % 2 ? WCM_AUTO : WCM_VMM, role_once);
	}
}

/* --- arguments */

static void role_wrong(struct world *w)
{
	static const int twice[] = {0, 0}, outside[] = {0, 2}, other[] = {1}, below[] = {-1, 0};
	int both[] = {1, 0};
	WholeChunkedMemoryHandle *handle = (void *)1;
	char byte = 0;
	wcm_info info;
	wcm_t m = NULL, again;

	world_join(w);
	expect_status(wcm_malloc(w->group, 1, 0, twice, 2, &m), WCM_EINVAL);
	expect_status(wcm_malloc(w->group, 1, 0, outside, 2, &m), WCM_EINVAL);
	expect_status(wcm_malloc(w->group, 1, 0, below, 2, &m), WCM_EINVAL);
	expect_status(wcm_malloc(w->group, 1, 0, both, 17, &m),
		      WCM_EINVAL); /* defect: not checked */
	expect_status(wcm_malloc(w->group, 1, 0, both, -1, &m), WCM_EINVAL);
	expect_status(wcm_malloc(w->group, 1, 0, NULL, 2, &m), WCM_EINVAL);
	expect_status(wcm_malloc(w->group, 1, 0, both, 0, &m), WCM_EINVAL);
	if (w->rank == 0)
		expect_status(wcm_malloc(w->group, 1, 0, other, 1, &m), WCM_EINVAL);
	expect_status(wcm_malloc(NULL, 1, 0, NULL, 0, &m), WCM_EINVAL);
	expect_status(wcm_malloc(w->group, SIZE_MAX, 0, NULL, 0, &m), WCM_EINVAL);
	expect_status(wcm_malloc(w->group, 1, SIZE_MAX, NULL, 0, &m), WCM_EINVAL);
	expect_status(wcm_malloc_exact(w->group, 1, 0, NULL, 0, &m), WCM_EINVAL);
	expect_status(wcm_malloc(w->group, 1, 0, NULL, 0, NULL), WCM_EINVAL);
	expect(m == NULL);

	expect_ok(wcm_malloc(w->group, 1000, 0, both, 2, &m)); /* chunk 0 is rank 1's */
	expect_ok(wcm_stat(m, &info));
	expect(info.ranks[0] == 1 && info.ranks[1] == 0 && info.ranks[2] == -1);
	expect(info.chunk == 1 - w->rank && info.total_size == 1024);
	expect_status(wcm_copy_to(m, 1024, &byte, 1, NULL), WCM_EINVAL);
	expect_status(wcm_copy_to(m, SIZE_MAX, &byte, 2, NULL), WCM_EINVAL);
	expect_status(wcm_copy_from(NULL, m, 0, 1, NULL), WCM_EINVAL);
	expect_ok(wcm_copy_from(NULL, m, 1024, 0, NULL));
	expect_status(wcm_device_handle(m, 1 - wcm_device(w->group), &handle), WCM_EINVAL);
	expect_status(wcm_device_handle(m, 99, &handle), WCM_EINVAL);
	expect_status(wcm_device_handle(NULL, WCM_HOST, &handle), WCM_EINVAL);
	expect(handle == (void *)1);
	expect_status(wcm_chunk(m, 2, NULL, NULL), WCM_EINVAL);
	expect_status(wcm_chunk(m, -1, NULL, NULL), WCM_EINVAL);
	expect(wcm_from_id(wcm_id(m)) == m && wcm_group_of(m) == w->group);
	again = m;
	expect_ok(wcm_free(m));
	expect_status(wcm_free(again), WCM_EINVAL); /* a pointer that was freed is an error */
	expect_status(wcm_stat(again, &info), WCM_EINVAL);
	expect(wcm_id(again) == 0 && wcm_from_id(1) == NULL && wcm_from_handle(handle) == NULL);
	expect_ok(wcm_free(NULL));
	expect_ok(wcm_finalize(w->group));
	expect_status(wcm_finalize(w->group), WCM_EINVAL);
	expect_status(wcm_barrier(w->group), WCM_EINVAL);
	expect(wcm_rank(w->group) == WCM_EINVAL && wcm_current() == NULL);
}

static void wrong_arguments_are_errors(void **state)
{
	(void)state;
	world_run(PROCESSES, 2, WCM_AUTO, role_wrong);
}

static void role_no_group(struct world *w)
{
	wcm_opts opts = world_opts(w), bad = opts;
	char name[2 * WCM_GROUP_NAME_MAX];
	wcm_group *g = NULL;

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	expect_status(wcm_init(&opts, 0, RANKS + 1, &g), WCM_EINVAL);
	expect_status(wcm_init(&opts, 2, 2, &g), WCM_EINVAL);
	expect_status(wcm_init(&opts, -1, 2, &g), WCM_EINVAL);
	expect_status(wcm_init(&opts, 0, 1, NULL), WCM_EINVAL);
	bad.device = 4;
	expect_status(wcm_init(&bad, 0, 1, &g), WCM_EINVAL);
	bad = opts;
	bad.backing = 3;
	expect_status(wcm_init(&bad, 0, 1, &g), WCM_EINVAL);
	bad = opts;
	bad.group = name;
	expect_status(wcm_init(&bad, 0, 1, &g), WCM_EINVAL);
	bad.group = "";
	expect_status(wcm_init(&bad, 0, 1, &g), WCM_EINVAL);
	bad = opts;
	bad.timeout_ms = 100;
	expect_status(wcm_init(&bad, 1, 2, &g), WCM_ETIMEDOUT); /* nobody opens the place */
	expect_status(wcm_init(&bad, 0, 2, &g), WCM_ETIMEDOUT); /* nobody comes */
	setenv("CRICKET_WCM", "backing=neither", 1);
	expect_status(wcm_init(&opts, 0, 1, &g), WCM_EINVAL);
	setenv("CRICKET_WCM", "backing=vmm", 1);
	expect_ok(wcm_init(&opts, 0, 1, &g));
	expect(wcm_backing_of(g) == WCM_VMM && wcm_current() == g);
	expect_ok(wcm_finalize(g));
}

static void a_group_that_cannot_be_is_refused(void **state)
{
	(void)state;
	world_run(PROCESSES, 1, WCM_AUTO, role_no_group);
}

/* Rank 2 of 3 says first that it is of another group, or rank 0. */
static void role_impostor(struct world *w)
{
	wcm_opts opts = world_opts(w);
	wcm_group *g = NULL;

	if (w->rank == 2) {
		expect_status(wcm_init(&opts, 2, 4, &g), WCM_EMISMATCH); /* so rank 0 is there */
		expect_status(wcm_init(&opts, 0, 3, &g), WCM_EBUSY);
	}
	world_join(w);
	expect_ok(wcm_barrier(w->group));
	expect_ok(wcm_finalize(w->group));
}

static void a_rank_that_is_there_already_is_refused(void **state)
{
	(void)state;
	world_run(PROCESSES, 3, WCM_AUTO, role_impostor);
}

/* --- ranks that differ */

static void role_differ(struct world *w)
{
	int pair[] = {w->rank, (w->rank + 1) % 3};
	wcm_t m = NULL;

	world_join(w);
	expect_status(wcm_malloc(w->group, w->rank == 1 ? 2000 : 1000, 0, NULL, 0, &m),
		      WCM_EMISMATCH);
	expect_ok(wcm_malloc(w->group, 1000, w->rank ? 16 : 0, NULL, 0, &m)); /* both are 256 */
	expect_ok(wcm_free(m));
	m = NULL;
	/* a circle: 0 waits for 1, 1 for 2, 2 for 0 */
	expect_status(wcm_malloc(w->group, 1, 0, pair, 2, &m), WCM_EMISMATCH);
	expect(m == NULL);
	expect_ok(wcm_barrier(w->group)); /* and life goes on */
	expect_ok(wcm_finalize(w->group));
}

static void ranks_that_want_different_things_are_told(void **state)
{
	(void)state;
	world_run(PROCESSES, 3, WCM_AUTO, role_differ);
	world_run(THREADS, 3, WCM_AUTO, role_differ);
}

static void role_late(struct world *w)
{
	world_join(w);
	if (w->rank == 1)
		world_sleep(300); /* a late one is waited for */
	expect_ok(wcm_barrier(w->group));
	expect_ok(wcm_finalize(w->group));
}

static void role_never(struct world *w)
{
	w->timeout_ms = 5000;
	world_join(w);
	if (w->rank == 1)
		world_await(w, 2);
	else
		expect_status(wcm_barrier(w->group), WCM_ETIMEDOUT);
	world_arrive(w);
	expect_ok(wcm_finalize(w->group));
}

static void nobody_waits_for_ever(void **state)
{
	(void)state;
	world_run(PROCESSES, 2, WCM_AUTO, role_late);
	world_run(PROCESSES, 3, WCM_AUTO, role_never);
}

/* --- lifetimes */

static void role_any_order(struct world *w)
{
	wcm_t m[3];

	world_join(w);
	enter(w);
	for (int i = 0; i < 3; i++)
		expect_ok(wcm_malloc(w->group, 3000, 0, NULL, 0, &m[i]));
	for (int i = 0; i < 3; i++) {
		int k = (i + w->rank) % 3;

		if (i == 2) /* the others may have freed it long ago */
			expect_ok(wcm_copy_to(m[k], (size_t)w->rank * 10, "abc", 3, NULL));
		expect_ok(wcm_free(m[k]));
	}
	/* defect: handle and object leaked; four times more than there is fits one after another */
	for (int i = 0; i < 8; i++) {
		expect_ok(wcm_malloc(w->group, 32 * MiB * (size_t)w->size, 0, NULL, 0, &m[0]));
		if (w->rank == i % w->size)
			world_sleep(10);
		expect_ok(wcm_free(m[0]));
		expect_ok(wcm_barrier(w->group)); /* all have freed it: it is back */
	}
	expect_ok(wcm_malloc(w->group, 1000, 0, NULL, 0, &m[0])); /* left to wcm_finalize */
	leave(w);
}

static void memory_is_freed_in_any_order_by_nobody_together(void **state)
{
	(void)state;
	world_run_all(3, role_any_order);
}

/* Rank 1 keeps what the others free: they do not wait, and it reads what they wrote. */
static void role_keeper(struct world *w)
{
	char text[6] = "";
	double began;
	wcm_t m, n;

	world_join(w);
	enter(w);
	expect_ok(wcm_malloc_exact(w->group, 600, 6, NULL, 0, &m));
	expect_ok(wcm_copy_to(m, (size_t)w->rank * 200, "hello", 6, NULL));
	expect_ok(wcm_barrier(w->group));
	began = world_seconds();
	if (w->rank != 1)
		expect_ok(wcm_free(m));
	expect_ok(wcm_malloc(w->group, 600, 0, NULL, 0, &n)); /* does not get that memory */
	expect_ok(wcm_copy_to(n, (size_t)w->rank * 200, "xxxxxx", 6, NULL));
	expect_ok(wcm_barrier(w->group));
	expect(world_seconds() - began < 60);
	for (size_t i = 0; w->rank == 1 && i < 3; i++) {
		expect_ok(wcm_copy_from(text, m, i * 200, 6, NULL));
		expect(cuStreamSynchronize(NULL) == 0 && strcmp(text, "hello") == 0);
	}
	expect_ok(wcm_free(n));
	leave(w);
}

static void a_rank_may_keep_what_others_have_freed(void **state)
{
	(void)state;
	world_run_all(3, role_keeper);
}

static void role_no_room(struct world *w)
{
	CUdeviceptr taken = 0;
	wcm_t m = NULL;

	world_join(w);
	enter(w);
	if (w->rank == 1)
		expect(cuMemAlloc_v2(&taken, 40 * MiB) == 0);
	expect_status(wcm_malloc(w->group, 3 * 32 * MiB, 0, NULL, 0, &m),
		      WCM_ENOMEM); /* all or none */
	expect(m == NULL);
	if (taken)
		expect(cuMemFree_v2(taken) == 0);
	expect_ok(wcm_barrier(w->group));
	for (int i = 0; i < 3; i++) {
		expect_ok(wcm_malloc(w->group, 3 * 32 * MiB, 0, NULL, 0, &m));
		expect_ok(wcm_free(m));
		expect_ok(wcm_barrier(w->group));
	}
	leave(w);
}

static void one_rank_without_room_is_told_to_all(void **state)
{
	(void)state;
	world_run_all(3, role_no_room);
}

static void role_subsets(struct world *w)
{
	int even[] = {2, 0}, odd[] = {1, 3}, alone[] = {w->rank};
	char text[4] = "";
	wcm_info info;
	wcm_t m, own;

	world_join(w);
	enter(w);
	for (int i = 0; i < 20; i++) {
		expect_ok(wcm_malloc(w->group, 512, 0, w->rank % 2 ? odd : even, 2, &m));
		expect_ok(wcm_malloc(w->group, 100, 0, alone, 1, &own));
		expect_ok(wcm_stat(m, &info));
		expect(info.chunk == (w->rank % 2 ? w->rank / 2 : 1 - w->rank / 2));
		expect_ok(wcm_copy_to(m, (size_t)info.chunk * 256, w->rank % 2 ? "odd" : "two", 4,
				      NULL));
		expect(cuStreamSynchronize(NULL) == 0);
		if (i % 5 == 0)
			expect_ok(wcm_barrier(w->group));
		expect_ok(wcm_free(own));
		if (i % 5 == 0) {
			expect_ok(wcm_copy_from(text, m, (size_t)(1 - info.chunk) * 256, 4, NULL));
			expect(cuStreamSynchronize(NULL) == 0);
			expect(strcmp(text, w->rank % 2 ? "odd" : "two") == 0);
		}
		expect_ok(wcm_free(m));
	}
	leave(w);
}

static void subsets_of_ranks_have_memory_of_their_own(void **state)
{
	(void)state;
	world_run_all(4, role_subsets);
}

/* --- what else ranks do together */

static void role_together(struct world *w)
{
	uint64_t sum, before, value = (uint64_t)w->rank + 1;
	int send[RANKS], receive[RANKS];
	unsigned char *all, mine[5000];

	world_join(w);
	expect_ok(wcm_aggregate(w->group, value, &sum, &before));
	expect(sum == 10 && before == (uint64_t)(w->rank * (w->rank + 1) / 2));
	for (int i = 0; i < w->size; i++)
		send[i] = w->rank * 100 + i;
	expect_ok(wcm_all_to_all(w->group, send, sizeof(int), receive));
	for (int i = 0; i < w->size; i++)
		expect(receive[i] == i * 100 + w->rank);
	fill(mine, (size_t)w->rank * 1000, sizeof(mine));
	all = malloc(sizeof(mine) * (size_t)w->size);
	expect_ok(wcm_all_gather(w->group, mine, sizeof(mine), all));
	for (int i = 0; i < w->size; i++)
		expect(same(all + (size_t)i * sizeof(mine), (size_t)i * 1000, sizeof(mine)));
	free(all);
	expect_status(wcm_all_gather(w->group, mine, w->rank ? 10 : 20, mine), WCM_EMISMATCH);
	expect_status(wcm_all_gather(w->group, NULL, 10, mine), WCM_EINVAL);
	expect_ok(wcm_finalize(w->group));
}

static void sums_and_exchanges(void **state)
{
	(void)state;
	world_run(PROCESSES, 4, WCM_AUTO, role_together);
	world_run(THREADS, 4, WCM_AUTO, role_together);
}

/* --- ranks that are killed */

/* Rank 1 is killed while the others wait for it; they go on with what they have, and without it. */
static void role_killed(struct world *w)
{
	int rest[] = {0, 2};
	char byte = 7;
	wcm_info info;
	wcm_t m, n;

	world_join(w);
	enter(w);
	expect_ok(wcm_malloc(w->group, 3000, 0, NULL, 0, &m));
	if (w->rank == 1) {
		world_sleep(20);
		raise(SIGKILL);
	}
	expect_status(wcm_malloc(w->group, 100, 0, NULL, 0, &n), WCM_EPEERLOST);
	expect_status(wcm_barrier(w->group), WCM_EPEERLOST);
	expect_ok(wcm_stat(m, &info));
	expect(info.lost == 2);
	expect_ok(wcm_copy_to(m, (size_t)w->rank * 1024, &byte, 1, NULL));
	expect_ok(wcm_malloc(w->group, 48 * MiB, 0, rest, 2, &n));
	expect_ok(wcm_free(n));
	expect_ok(wcm_free(m)); /* defect: the barrier in it would never return */
	leave(w);
}

/* The meeting place itself goes. */
static void role_first_killed(struct world *w)
{
	double began;
	wcm_t m;

	world_join(w);
	enter(w);
	expect_ok(wcm_malloc(w->group, 3000, 0, NULL, 0, &m));
	if (w->rank == 0) {
		world_await(w, 2); /* else it takes the answer to them with it */
		raise(SIGKILL);
	}
	world_arrive(w);
	began = world_seconds();
	expect_status(wcm_barrier(w->group), WCM_EPEERLOST);
	expect_ok(wcm_free(m));
	leave(w);
	expect(world_seconds() - began < 60);
}

/* At any moment: each rank is killed after another time, in the middle of everything. */
static void role_killed_somewhere(struct world *w)
{
	int status = WCM_OK;
	wcm_t m;

	if (w->rank == w->size - 1) { /* not before it has begun */
		world_join(w);
		for (int i = 0; i < w->backing * 3; i++)
			wcm_barrier(w->group);
		if (fork() == 0) { /* somebody else's hand: any moment */
			world_sleep(5 * w->backing);
			kill(getppid(), SIGKILL);
			_exit(0);
		}
		for (;;) {
			wcm_malloc(w->group, 2000, 0, NULL, 0, &m);
			wcm_free(m);
		}
	}
	world_join(w);
	for (int i = 0; i < w->backing * 3; i++)
		wcm_barrier(w->group);
	while (status == WCM_OK) {
		status = wcm_malloc(w->group, 2000, 0, NULL, 0, &m);
		if (status == WCM_OK)
			expect_ok(wcm_free(m));
	}
	expect(status == WCM_EPEERLOST);
	expect_ok(wcm_finalize(w->group));
}

static void a_killed_rank_holds_up_nobody(void **state)
{
	(void)state;
	world_run_killed(3, WCM_IPC, 2, role_killed);
	world_run_killed(3, WCM_VMM, 2, role_killed);
	world_run_killed(3, WCM_IPC, 1, role_first_killed);
	world_run_killed(3, WCM_VMM, 1, role_first_killed);
	for (int i = 0; i < 4; i++)
		world_run_killed(3, i % 2 ? WCM_VMM : WCM_IPC, 4, role_killed_somewhere);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_and_granularities),
		cmocka_unit_test(copies_of_1_to_255_bytes_across_chunks),
		cmocka_unit_test(one_to_sixteen_ranks),
		cmocka_unit_test(wrong_arguments_are_errors),
		cmocka_unit_test(a_group_that_cannot_be_is_refused),
		cmocka_unit_test(a_rank_that_is_there_already_is_refused),
		cmocka_unit_test(ranks_that_want_different_things_are_told),
		cmocka_unit_test(nobody_waits_for_ever),
		cmocka_unit_test(memory_is_freed_in_any_order_by_nobody_together),
		cmocka_unit_test(a_rank_may_keep_what_others_have_freed),
		cmocka_unit_test(one_rank_without_room_is_told_to_all),
		cmocka_unit_test(subsets_of_ranks_have_memory_of_their_own),
		cmocka_unit_test(sums_and_exchanges),
		cmocka_unit_test(a_killed_rank_holds_up_nobody),
	};

	return cmocka_run_group_tests(tests, world_setup, NULL);
}
