/*
 * tests/loader/mpi_checks.c - an MPI program without a word of the loader: "mpi_checks NAME..."
 * runs these checks on every rank, natively and under the loader alike.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <stddef.h>
#include <string.h>

#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			printf("rank %d: %s:%d: not so: %s\n", rank, __func__, __LINE__, #x);      \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

static int rank, size;
static _Thread_local int word = 1234;

static int ring(void)
{
	int token = -1, next = (rank + 1) % size, last = (rank + size - 1) % size;
	MPI_Status status;

	for (int round = 0; round < 100; round++) {
		if (!rank) {
			token = round;
			MPI_Send(&token, 1, MPI_INT, next, 7, MPI_COMM_WORLD);
			MPI_Recv(&token, 1, MPI_INT, last, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
		} else {
			MPI_Recv(&token, 1, MPI_INT, last, 7, MPI_COMM_WORLD, &status);
			token++;
			MPI_Send(&token, 1, MPI_INT, next, 7, MPI_COMM_WORLD);
		}
		CHECK(token == round + (rank ? rank : size - 1));
		CHECK(status.MPI_SOURCE == last && status.MPI_TAG == 7);
	}
	return 0;
}

static int allreduce(void)
{
	struct {
		double value;
		int where;
	} mine = {rank == 1 ? 9.5 : 1.0, rank}, most;
	long long sum = rank + 1;
	float f[3] = {1, 2, 3};

	MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
	CHECK(sum == (long long)size * (size + 1) / 2);
	MPI_Allreduce(MPI_IN_PLACE, f, 3, MPI_FLOAT, MPI_PROD, MPI_COMM_SELF);
	CHECK(f[2] == 3);
	MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
	CHECK(most.where == (size > 1 ? 1 : 0));
	return 0;
}

static int large(void)
{
	enum { BYTES = 64 << 20 };
	unsigned char *out = malloc(BYTES), *in = malloc(BYTES);
	int next = (rank + 1) % size, last = (rank + size - 1) % size;

	for (int i = 0; i < BYTES; i++)
		out[i] = (unsigned char)(i * 7 + i / 4096 + rank);
	MPI_Sendrecv(out, BYTES, MPI_BYTE, next, 1, in, BYTES, MPI_BYTE, last, 1, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	for (int i = 0; i < BYTES; i++)
		CHECK(in[i] == (unsigned char)(i * 7 + i / 4096 + last));
	free(out);
	free(in);
	return 0;
}

static int window(void)
{
	int *base, got = -1, one = 1, old = -1, *memory, value = rank * 10, flag;
	void *attribute;
	MPI_Win win;

	MPI_Win_allocate(64 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
	memset(base, 0, 64 * sizeof(int));
	MPI_Win_fence(0, win);
	MPI_Put(&value, 1, MPI_INT, (rank + 1) % size, 3, 1, MPI_INT, win);
	MPI_Win_fence(0, win);
	CHECK(base[3] == (rank + size - 1) % size * 10);
	MPI_Get(&got, 1, MPI_INT, (rank + 1) % size, 3, 1, MPI_INT, win);
	MPI_Win_fence(0, win);
	CHECK(got == value);
	MPI_Win_lock_all(0, win);
	MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 0, MPI_SUM, win);
	MPI_Accumulate(&one, 1, MPI_INT, 0, 1, 1, MPI_INT, MPI_SUM, win);
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_fence(0, win);
	CHECK(old >= 0 && old < size && (rank || (base[0] == size && base[1] == size)));
	MPI_Win_get_attr(win, MPI_WIN_BASE, &attribute, &flag);
	CHECK(flag && attribute == base);
	MPI_Win_free(&win);
	CHECK(win == MPI_WIN_NULL);
	MPI_Alloc_mem(4096, MPI_INFO_NULL, &memory);
	MPI_Win_create(memory, 4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Win_free(&win);
	MPI_Free_mem(memory);
	return 0;
}

struct cell {
	double x;
	int n;
	char c[5];
};

static int types(void)
{
	struct cell cells[4] = {{0}}, got[4] = {{0}};
	int lengths[3] = {1, 1, 5}, ints[8], counts[3], combiner, n, size_of;
	MPI_Aint at[3] = {offsetof(struct cell, x), offsetof(struct cell, n),
			  offsetof(struct cell, c)};
	MPI_Datatype parts[3] = {MPI_DOUBLE, MPI_INT, MPI_CHAR}, type, resized, vector, inner[3];
	MPI_Aint addresses[8];
	MPI_Status status;

	MPI_Type_create_struct(3, lengths, at, parts, &type);
	MPI_Type_create_resized(type, 0, sizeof(struct cell), &resized);
	MPI_Type_commit(&resized);
	for (int i = 0; i < 4; i++)
		cells[i] = (struct cell){rank + i * 0.5, i, "abcd"};
	MPI_Sendrecv(cells, 4, resized, rank, 0, got, 4, resized, rank, 0, MPI_COMM_WORLD, &status);
	CHECK(got[3].x == rank + 1.5 && got[3].n == 3 && !strcmp(got[2].c, "abcd"));
	MPI_Get_count(&status, resized, &n);
	CHECK(n == 4);
	MPI_Get_elements(&status, MPI_BYTE, &n);
	MPI_Type_get_envelope(type, &counts[0], &counts[1], &counts[2], &combiner);
	CHECK(combiner == MPI_COMBINER_STRUCT && counts[2] == 3);
	MPI_Type_get_contents(type, counts[0], counts[1], counts[2], ints, addresses, inner);
	CHECK(inner[0] == MPI_DOUBLE && inner[1] == MPI_INT && inner[2] == MPI_CHAR);
	CHECK(parts[0] == MPI_DOUBLE); /* ours have been left alone */
	MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
	MPI_Type_commit(&vector);
	MPI_Type_size(vector, &size_of);
	CHECK(size_of == 8);
	MPI_Type_free(&vector);
	MPI_Type_free(&type);
	MPI_Type_free(&resized);
	CHECK(vector == MPI_DATATYPE_NULL);
	MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type);
	MPI_Type_size(type, &size_of);
	CHECK(size_of == 8);
	return 0;
}

static int op_calls, op_wrong;

static void add_mod(void *in, void *inout, int *n, MPI_Datatype *type)
{
	op_calls++;
	op_wrong += *type != MPI_INT || word != 1234;
	for (int i = 0; i < *n; i++)
		((int *)inout)[i] = (((int *)in)[i] + ((int *)inout)[i]) % 1000;
}

static int handled, handled_class;
static MPI_Comm handled_comm;

static void handler(MPI_Comm *comm, int *error, ...)
{
	handled += word == 1234;
	handled_comm = *comm;
	MPI_Error_class(*error, &handled_class);
}

static int copies, deletes;

static int copy_attr(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
	(void)keyval;
	copies += comm == MPI_COMM_WORLD && extra == &copies && word == 1234;
	*(void **)out = (char *)in + 1;
	*flag = 1;
	return MPI_SUCCESS;
}

static int delete_attr(MPI_Comm comm, int keyval, void *value, void *extra)
{
	(void)comm, (void)keyval, (void)value, (void)extra;
	deletes++;
	return MPI_SUCCESS;
}

static int callbacks(void)
{
	int value = rank + 1, sum = 0, keyval, flag;
	MPI_Errhandler errhandler, old;
	void *attribute = NULL;
	MPI_Comm dup;
	MPI_Op op;

	MPI_Op_create(add_mod, 1, &op);
	MPI_Allreduce(&value, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
	MPI_Reduce_local(&value, &sum, 1, MPI_INT, op);
	CHECK(sum == size * (size + 1) / 2 + value && op_calls && !op_wrong);
	MPI_Op_free(&op);
	CHECK(op == MPI_OP_NULL);

	MPI_Comm_get_errhandler(MPI_COMM_WORLD, &old);
	CHECK(old == MPI_ERRORS_ARE_FATAL);
	MPI_Comm_create_errhandler(handler, &errhandler);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, errhandler);
	MPI_Send(&value, 1, MPI_INT, size + 5, 0, MPI_COMM_WORLD);
	CHECK(handled == 1 && handled_comm == MPI_COMM_WORLD && handled_class == MPI_ERR_RANK);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	CHECK(MPI_Send(&value, 1, MPI_INT, size + 5, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, old);
	MPI_Errhandler_free(&errhandler);

	MPI_Comm_create_keyval(copy_attr, delete_attr, &keyval, &copies);
	MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, (void *)100);
	MPI_Comm_dup(MPI_COMM_WORLD, &dup);
	MPI_Comm_get_attr(dup, keyval, &attribute, &flag);
	CHECK(flag && attribute == (void *)101 && copies == 1);
	MPI_Comm_free(&dup);
	MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
	CHECK(deletes == 2);
	MPI_Comm_free_keyval(&keyval);
	MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
	MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, (void *)55);
	MPI_Comm_dup(MPI_COMM_WORLD, &dup);
	MPI_Comm_get_attr(dup, keyval, &attribute, &flag);
	CHECK(flag && attribute == (void *)55);
	MPI_Comm_free(&dup);
	MPI_Comm_free_keyval(&keyval);
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &attribute, &flag);
	CHECK(flag && *(int *)attribute >= 32767);
	return 0;
}

static int handles(void)
{
	MPI_Request requests[8], one = MPI_REQUEST_NULL;
	int in[4] = {0}, out[4], n, indices[8], flag, index, compared;
	MPI_Group world, some;
	MPI_Comm sub, parent;
	MPI_Info info;
	MPI_Message message;
	MPI_Status status;
	char value[32];

	for (int i = 0; i < 4; i++) {
		out[i] = rank * 10 + i;
		MPI_Irecv(&in[i], 1, MPI_INT, rank, i, MPI_COMM_WORLD, &requests[i]);
		MPI_Isend(&out[i], 1, MPI_INT, rank, i, MPI_COMM_WORLD, &requests[4 + i]);
	}
	MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
	for (int i = 0; i < 8; i++)
		CHECK(requests[i] == MPI_REQUEST_NULL);
	CHECK(in[3] == out[3]);
	MPI_Waitsome(8, requests, &n, indices, MPI_STATUSES_IGNORE);
	CHECK(n == MPI_UNDEFINED);
	MPI_Testany(8, requests, &index, &flag, MPI_STATUS_IGNORE);
	CHECK(flag && index == MPI_UNDEFINED);
	MPI_Wait(&one, MPI_STATUS_IGNORE);
	CHECK(one == MPI_REQUEST_NULL);
	MPI_Isend(out, 1, MPI_INT, rank, 9, MPI_COMM_WORLD, &one);
	MPI_Mprobe(rank, 9, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
	MPI_Mrecv(in, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
	CHECK(message == MPI_MESSAGE_NULL && in[0] == out[0]);
	MPI_Wait(&one, MPI_STATUS_IGNORE);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
#ifdef OPEN_MPI /* MPICH sets it in programs of Fortran only */
	CHECK(MPI_F_STATUS_IGNORE);
#endif
	CHECK(!MPI_F_STATUS_IGNORE || MPI_Status_f2c(MPI_F_STATUS_IGNORE, &status) != MPI_SUCCESS);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_difference(world, world, &some);
	CHECK(some == MPI_GROUP_EMPTY);
	MPI_Group_compare(world, some, &compared);
	CHECK(compared == MPI_UNEQUAL);
	MPI_Group_free(&world);
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2 ? MPI_UNDEFINED : 0, 0, &sub);
	CHECK((sub == MPI_COMM_NULL) == (rank % 2));
	if (sub != MPI_COMM_NULL)
		MPI_Comm_free(&sub);
	MPI_Comm_get_parent(&parent);
	CHECK(parent == MPI_COMM_NULL);
	CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
	CHECK(MPI_Type_f2c(MPI_Type_c2f(MPI_INT)) == MPI_INT);
	MPI_Info_create(&info);
	MPI_Info_set(info, "key", "value");
	MPI_Info_get(info, "key", 31, value, &flag);
	CHECK(flag && !strcmp(value, "value"));
	MPI_Info_free(&info);
	CHECK(info == MPI_INFO_NULL);
	CHECK(MPI_Wtime() >= 0 && MPI_Wtick() > 0 && MPI_Wtick() < 1);
	return 0;
}

/* Arrays of datatypes, which must not be changed; also while the call is not done. */
static int every_type(void)
{
	int *counts = malloc(sizeof(int) * (size_t)size), *at = malloc(sizeof(int) * (size_t)size);
	MPI_Datatype *types = malloc(sizeof(*types) * (size_t)size);
	int *out = malloc(sizeof(int) * (size_t)size), *in = calloc((size_t)size, sizeof(int));
	int dims[1] = {size}, wrap[1] = {1}, around_in[2] = {-1, -1}, around_out[2] = {rank, rank};
	MPI_Datatype two[2] = {MPI_INT, MPI_INT};
	int two_counts[2] = {1, 1};
	MPI_Aint two_at[2] = {0, sizeof(int)};
	MPI_Request request;
	MPI_Comm cart;

	for (int i = 0; i < size; i++) {
		counts[i] = 1;
		at[i] = i * (int)sizeof(int);
		types[i] = i % 2 ? MPI_INT : MPI_UNSIGNED;
		out[i] = rank * 100 + i;
	}
	for (int i = 0; i < size; i++)
		types[i] = MPI_INT;
	MPI_Alltoallw(out, counts, at, types, in, counts, at, types, MPI_COMM_WORLD);
	for (int i = 0; i < size; i++)
		CHECK(in[i] == i * 100 + rank && types[i] == MPI_INT);
	for (int round = 0; round < 20; round++) {
		memset(in, 0, sizeof(int) * (size_t)size);
		MPI_Ialltoallw(out, counts, at, types, in, counts, at, types, MPI_COMM_WORLD,
			       &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		CHECK(in[size - 1] == (size - 1) * 100 + rank);
	}
	MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, in, counts, at, types, MPI_COMM_WORLD);
	MPI_Cart_create(MPI_COMM_WORLD, 1, dims, wrap, 0, &cart);
	MPI_Neighbor_alltoallw(around_out, two_counts, two_at, two, around_in, two_counts, two_at,
			       two, cart);
	CHECK(around_in[0] == (rank + size - 1) % size && around_in[1] == (rank + 1) % size);
	MPI_Comm_free(&cart);
	free(counts), free(at), free(types), free(out), free(in);
	return 0;
}

static int query_calls, freed;

static int query(void *extra, MPI_Status *status)
{
	query_calls += extra == &query_calls && word == 1234;
	MPI_Status_set_elements(status, MPI_INT, 3);
	MPI_Status_set_cancelled(status, 0);
	status->MPI_SOURCE = 5;
	status->MPI_TAG = 6;
	return MPI_SUCCESS;
}

static int free_it(void *extra)
{
	freed += extra == &query_calls;
	return MPI_SUCCESS;
}

static int cancel_it(void *extra, int complete)
{
	(void)extra, (void)complete;
	return MPI_SUCCESS;
}

static int generalized(void)
{
	MPI_Request request;
	MPI_Status status;
	int n;

	MPI_Grequest_start(query, free_it, cancel_it, &query_calls, &request);
	MPI_Grequest_complete(request);
	MPI_Wait(&request, &status);
	MPI_Get_count(&status, MPI_INT, &n);
	CHECK(n == 3 && status.MPI_TAG == 6 && query_calls == 1 && freed == 1);
	return 0;
}

static int file(void)
{
	char name[64], text[16] = {0};
	MPI_Datatype etype, filetype;
	char representation[MPI_MAX_DATAREP_STRING];
	MPI_Offset at;
	MPI_File f;

	snprintf(name, sizeof(name), "/tmp/mpi_checks.%d.%d", rank,
		 (int)(MPI_Wtime() * 1000) % 1000000);
	MPI_File_open(MPI_COMM_SELF, name,
		      MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
		      &f);
	MPI_File_write_at(f, 0, "written", 7, MPI_CHAR, MPI_STATUS_IGNORE);
	MPI_File_read_at(f, 0, text, 7, MPI_CHAR, MPI_STATUS_IGNORE);
	CHECK(!strcmp(text, "written"));
	MPI_File_get_view(f, &at, &etype, &filetype, representation);
	CHECK(etype == MPI_BYTE && filetype == MPI_BYTE);
	MPI_File_close(&f);
	CHECK(f == MPI_FILE_NULL);
	return 0;
}

enum { THREADS = 4, ROUNDS = 50, WORDS = 20000 };

/* Messages large enough that the MPI library allocates: small ones prove nothing. */
static void *talk(void *argument)
{
	int tag = (int)(long)argument, next = (rank + 1) % size, last = (rank + size - 1) % size;
	int *out = malloc(WORDS * sizeof(int)), *in = malloc(WORDS * sizeof(int));
	MPI_Request requests[2];
	long wrong = word != 1234;

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < WORDS; i++)
			out[i] = rank * 1000000 + tag * 100000 + round + i;
		MPI_Irecv(in, WORDS, MPI_INT, last, tag, MPI_COMM_WORLD, &requests[0]);
		MPI_Isend(out, WORDS, MPI_INT, next, tag, MPI_COMM_WORLD, &requests[1]);
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		for (int i = 0; i < WORDS; i++)
			wrong += in[i] != last * 1000000 + tag * 100000 + round + i;
	}
	free(out);
	free(in);
	return (void *)wrong;
}

static int threads(void)
{
	pthread_t thread[THREADS];
	int provided;

	MPI_Query_thread(&provided);
	CHECK(provided == MPI_THREAD_MULTIPLE);
	for (long i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, talk, (void *)i));
	for (int i = 0; i < THREADS; i++) {
		void *wrong;

		pthread_join(thread[i], &wrong);
		CHECK(!wrong);
	}
	return 0;
}

/* A profiler's way: our MPI_Barrier is called, and calls PMPI's. */
static int profiled;

int MPI_Barrier(MPI_Comm comm)
{
	profiled++;
	return PMPI_Barrier(comm);
}

static int pmpi(void)
{
	int n = -1;

	CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS && profiled >= 1);
	CHECK(PMPI_Comm_size(MPI_COMM_WORLD, &n) == MPI_SUCCESS && n == size);
	return 0;
}

static int tools(void)
{
	int provided, n = 0;

	MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
	MPI_T_cvar_get_num(&n);
	CHECK(n > 0);
	for (int i = 0; i < n && i < 50; i++) {
		char name[256], text[2048];
		int name_len = sizeof(name), len = sizeof(text), verbosity, bind, scope;
		MPI_Datatype type;
		MPI_T_enum e;

		if (!MPI_T_cvar_get_info(i, name, &name_len, &verbosity, &type, &e, text, &len,
					 &bind, &scope))
			CHECK(type == MPI_INT || type == MPI_CHAR || type == MPI_UNSIGNED ||
			      type == MPI_UNSIGNED_LONG || type == MPI_UNSIGNED_LONG_LONG ||
			      type == MPI_COUNT || type == MPI_DOUBLE || type != MPI_DATATYPE_NULL);
	}
	MPI_T_finalize();
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} all[] = {
	{"ring", ring},	      {"allreduce", allreduce},	  {"large", large},
	{"window", window},   {"types", types},		  {"callbacks", callbacks},
	{"handles", handles}, {"every_type", every_type}, {"generalized", generalized},
	{"file", file},	      {"threads", threads},	  {"pmpi", pmpi},
	{"tools", tools},
};

int main(int argc, char **argv)
{
	int provided, bad = 0;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 1; i < argc; i++) {
		int known = 0;

		for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
			if (strcmp(argv[i], all[k].name))
				continue;
			known = 1;
			bad |= all[k].run();
		}
		bad |= !known;
		MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
		if (!rank)
			printf("%s %s\n", argv[i], bad ? "failed" : "ok");
		fflush(stdout);
	}
	MPI_Finalize();
	return bad;
}
