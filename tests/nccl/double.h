/* tests/nccl/double.h - the parts of the test double of NCCL. */
#ifndef CK_TESTS_NCCL_DOUBLE_H
#define CK_TESTS_NCCL_DOUBLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/nccl.h"
#include "gen/nccl_api.h"
#include "gen/nccl_wire.h"

#define KINDS 16
#define OWN_OPS 64

/* Connections of a rank: [0] for operations in streams, [1] for calls. */
struct mesh {
	int ranks, rank;
	int *fds[2];
	int root, listener; /* while it is made; -1 */
	atomic_bool *stop;
};

struct ncclComm {
	struct mesh mesh;
	CUcontext context;
	int device;
	bool blocking;
	atomic_bool stop; /* aborted */
	_Atomic ncclResult_t state, error;
	pthread_t thread; /* that makes it, if the program does not wait */
	bool has_thread;
	bool connected[KINDS];
	double scales[OWN_OPS];
	bool own[OWN_OPS];
	pthread_mutex_t lock; /* with the number of plans that have not run */
	pthread_cond_t idle;
	int plans;
};

/* One operation in a stream. */
struct work {
	int what;
	const char *send;
	char *recv;
	size_t count;
	int type, op, root;
	CUstream stream;
	ncclComm_t comm;
};

/* --- double_mesh.c: -1 on an error, also after a stop */
int mesh_root(ncclUniqueId *id);
int mesh_make(struct mesh *m, const ncclUniqueId *id, int ranks, int rank, atomic_bool *stop);
void mesh_stop(struct mesh *m);
void mesh_free(struct mesh *m);
int mesh_send(struct mesh *m, int plane, int peer, const void *bytes, size_t size);
int mesh_recv(struct mesh *m, int plane, int peer, void *bytes, size_t size);
int mesh_barrier(struct mesh *m);

/* --- double_plan.c */
size_t size_of(int type);
/* Put the operations of one communicator and stream into the stream. Takes @works. */
ncclResult_t plan_launch(struct work *works, int count);

#endif
