/* tests/nccl/program.h - what the cases of ranks.c share. */
#ifndef CK_TESTS_NCCL_PROGRAM_H
#define CK_TESTS_NCCL_PROGRAM_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "gen/api.h"
#include "gen/nccl_api.h"

/* This process's part: its rank, and where the ranks find the unique id. */
struct part {
	int rank, ranks;
	const char *file;
	CUcontext context;
	CUstream stream;
	ncclComm_t comm;
};

#define die(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))
#define cu(call)                                                                                   \
	do {                                                                                       \
		CUresult err_ = (call);                                                            \
		if (err_)                                                                          \
			die("%s:%d: %s: CUDA error %d", __FILE__, __LINE__, #call, err_);          \
	} while (0)
#define nc(call)                                                                                   \
	do {                                                                                       \
		ncclResult_t ret_ = (call);                                                        \
		if (ret_)                                                                          \
			die("%s:%d: %s: %d: %s", __FILE__, __LINE__, #call, ret_,                  \
			    ncclGetLastError(NULL));                                               \
	} while (0)
#define want(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			die("%s:%d: not so: %s", __FILE__, __LINE__, #condition);                  \
	} while (0)

/* @count floats on the device, each @first + its number times @step. */
CUdeviceptr floats(size_t count, float first, float step);
/* They are that. */
void expect(CUdeviceptr at, size_t count, float first, float step);
#define P(pointer) ((void *)(uintptr_t)(pointer))

/* The unique id that rank 0 has put into the file. */
ncclUniqueId meet(const struct part *p, const char *suffix);
/* Wait until the communicator is ready; its state. */
ncclResult_t finished(ncclComm_t comm);
ncclConfig_t config_of(int blocking);

struct test_case {
	const char *name;
	void (*run)(struct part *p);
	bool alone; /* makes its communicators itself */
};
extern const struct test_case single_cases[], process_cases[];

#endif
