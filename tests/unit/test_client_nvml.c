/*
 * tests/unit/test_client_nvml.c - NVML's calls against a server that the test plays: what is
 * refused here, what is sent, and that no answer writes more than the caller has.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "client/nvml/nvml.h"
#include "client/nvml/state.h"
#include "gen/nvml_api.h"
#include "tests/unit/client_peer.h"

static nvmlReturn_t says; /* NVML's result of the next calls */
static bool knows_uuids;  /* does it find CUDA's devices by them? Not those of MIG. */
static char long_text[300];
static struct nvmlProcessInfo_t processes[3] = {{11, 1, 2, 3}, {12, 4, 5, 6}, {13, 7, 8, 9}};

/* More than was asked for, where a server could send more. */
static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	nvmlDeviceGetHandleByUUID_res *by_uuid = res;
	nvmlDeviceGetHandleByIndex_v2_res *handle = res;
	nvmlDeviceGetName_res *name = res;
	nvmlDeviceGetComputeRunningProcesses_v3_res *list = res;
	nvmlDeviceGetPciInfo_v3_res *pci = res;

	(void)payload;
	switch (m->number) {
	case CK_PROC_nvmlDeviceGetHandleByUUID:
		by_uuid->nvml = (int)(knows_uuids ? says : NVML_ERROR_NOT_FOUND);
		by_uuid->device = 1;
		break;
	case CK_PROC_nvmlDeviceGetHandleByIndex_v2:
		handle->nvml = (int)says;
		handle->device = 1 + ((const nvmlDeviceGetHandleByIndex_v2_args *)m->args)->index;
		break;
	case CK_PROC_nvmlDeviceGetName:
		name->nvml = (int)says;
		name->name.name_len = sizeof(long_text);
		name->name.name_val = long_text;
		break;
	case CK_PROC_nvmlDeviceGetComputeRunningProcesses_v3:
		list->nvml = (int)says;
		list->infoCount = 3;
		list->infos.infos_len = sizeof(processes);
		list->infos.infos_val = (char *)processes;
		break;
	case CK_PROC_nvmlDeviceGetPciInfo_v3:
		memset(pci->pci, 'p', sizeof(pci->pci));
		break;
	default:
		break;
	}
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	peer.call = answer;
	return peer_begin(state);
}

static int start(void **state)
{
	(void)state;
	says = NVML_SUCCESS;
	peer_clear();
	return (int)nvmlInit_v2();
}

static int stop(void **state)
{
	(void)state;
	return (int)nvmlShutdown();
}

static nvmlDevice_t device(void)
{
	nvmlDevice_t d = NULL;

	assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &d), NVML_SUCCESS);
	assert_non_null(d);
	return d;
}

static void nothing_works_before_the_start_and_after_the_end(void **state)
{
	unsigned int count;

	(void)state;
	peer_clear();
	assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
	assert_int_equal(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
	assert_int_equal(nvmlInit(), NVML_SUCCESS);
	assert_int_equal(nvmlInitWithFlags(1), NVML_SUCCESS);
	assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
	assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetCount(&count), NVML_ERROR_UNINITIALIZED);
	assert_int_equal(peer_count(CK_PROC_nvmlDeviceGetCount_v2), 0); /* hello has said it */
}

/* Also when another thread was inside of nvmlInit: the child has a lock without an owner. */
static int in_child(void)
{
	if (nvmlShutdown() != NVML_ERROR_UNINITIALIZED)
		return 1;
	/* cuInit was called: there is no session */
	return nvmlInit_v2() == NVML_ERROR_UNINITIALIZED ? 0 : 2;
}

static void the_child_of_a_fork_has_not_started_nvml(void **state)
{
	struct ck_mutex *lock = &ckc_client_current()->nvml->lock;
	int status;
	pid_t child;

	(void)state;
	pthread_mutex_lock(&lock->mutex); /* as another thread would */
	child = fork();
	if (child == 0) {
		alarm(10);
		_exit(in_child());
	}
	pthread_mutex_unlock(&lock->mutex);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_handle_that_is_none_is_not_sent(void **state)
{
	nvmlDevice_t d = device();
	unsigned int index;

	(void)state;
	assert_int_equal(nvmlDeviceGetIndex(NULL, &index), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetIndex((nvmlDevice_t)(uintptr_t)1, &index),
			 NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetIndex((nvmlDevice_t)((char *)d + 500), &index),
			 NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetIndex((nvmlDevice_t)((char *)d - 1), &index),
			 NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(peer_count(CK_PROC_nvmlDeviceGetIndex), 0);
	assert_int_equal(nvmlDeviceGetIndex(d, &index), NVML_SUCCESS);
	assert_ptr_equal(device(), d);
}

static void a_null_output_is_not_sent(void **state)
{
	nvmlDevice_t d = device();
	int major;

	(void)state;
	assert_int_equal(nvmlDeviceGetCount_v2(NULL), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetMemoryInfo(d, NULL), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetCudaComputeCapability(d, &major, NULL),
			 NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetHandleByUUID(NULL, &d), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetPciInfo_v2(d, NULL), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(peer_count(CK_PROC_nvmlDeviceGetMemoryInfo), 0);
}

static void a_structure_of_another_version_is_not_sent(void **state)
{
	struct nvmlMemory_v2_t memory = {.version = 0x03000028};
	nvmlDevice_t d = device();

	(void)state;
	assert_int_equal(nvmlDeviceGetMemoryInfo_v2(d, &memory),
			 NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	assert_int_equal(peer_count(CK_PROC_nvmlDeviceGetMemoryInfo_v2), 0);
	memory.version = 0x02000028;
	assert_int_equal(nvmlDeviceGetMemoryInfo_v2(d, &memory), NVML_SUCCESS);
}

static void nvmls_errors_come_back_as_they_are(void **state)
{
	nvmlDevice_t d;

	(void)state;
	says = NVML_ERROR_GPU_IS_LOST;
	assert_int_equal(nvmlDeviceGetHandleByIndex(0, &d), NVML_ERROR_GPU_IS_LOST);
	says = (nvmlReturn_t)777;
	assert_int_equal(nvmlDeviceGetHandleByIndex(0, &d), 777);
	assert_string_equal(nvmlErrorString((nvmlReturn_t)777), "Unknown Error");
	assert_string_equal(nvmlErrorString(NVML_ERROR_NO_PERMISSION), "Insufficient Permissions");
}

static void a_text_that_is_too_long_is_not_written(void **state)
{
	nvmlDevice_t d = device();
	char name[8] = "before";

	(void)state;
	memset(long_text, 'x', sizeof(long_text) - 1);
	assert_int_equal(nvmlDeviceGetName(d, name, sizeof(name)), NVML_ERROR_INSUFFICIENT_SIZE);
	assert_string_equal(name, "before");
}

static void a_list_that_is_too_long_is_cut(void **state)
{
	struct nvmlProcessInfo_t infos[3] = {0};
	nvmlDevice_t d = device();
	unsigned int count = 2;

	(void)state;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(d, &count, infos), NVML_SUCCESS);
	assert_int_equal(infos[1].pid, 12);
	assert_int_equal(infos[2].pid, 0);
	count = 1000;
	says = NVML_ERROR_INSUFFICIENT_SIZE;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v2(d, &count, NULL),
			 NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(count, 3);
	says = NVML_ERROR_NO_PERMISSION;
	count = 5;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(d, &count, infos),
			 NVML_ERROR_NO_PERMISSION);
	assert_int_equal(count, 5);
}

static void older_programs_get_no_more_than_they_know(void **state)
{
	nvmlDevice_t d = device();
	struct nvmlPciInfo_t pci = {0};

	(void)state;
	assert_int_equal(nvmlDeviceGetPciInfo(d, &pci), NVML_SUCCESS);
	assert_int_equal(((char *)&pci)[31], 'p');
	assert_int_equal(((char *)&pci)[32], 0);
	assert_int_equal(nvmlDeviceGetPciInfo_v2(d, &pci), NVML_SUCCESS);
	assert_int_equal(((char *)&pci)[35], 'p');
	assert_int_equal(((char *)&pci)[36], 0);
}

/* As generated: what is refused looks at no argument. */
nvmlReturn_t nvmlDeviceSetComputeMode(void);
nvmlReturn_t nvmlGpmSampleAlloc(void);

static void what_is_not_made_has_its_own_errors(void **state)
{
	(void)state;
	assert_int_equal(nvmlDeviceSetComputeMode(), NVML_ERROR_NO_PERMISSION);
	assert_int_equal(nvmlGpmSampleAlloc(), NVML_ERROR_NOT_SUPPORTED);
}

static void a_set_of_events_is_one_in_which_nothing_happens(void **state)
{
	nvmlEventSet_t set, other = (nvmlEventSet_t)8;
	char data[64];

	(void)state;
	assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceRegisterEvents(device(), 1, set), NVML_ERROR_NOT_SUPPORTED);
	assert_int_equal(nvmlEventSetWait_v2(set, data, 1), NVML_ERROR_TIMEOUT);
	assert_int_equal(nvmlEventSetWait_v2(other, data, 1), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
	assert_int_equal(nvmlEventSetFree(set), NVML_ERROR_INVALID_ARGUMENT);
}

static void a_device_is_found_by_its_uuid_or_its_number(void **state)
{
	unsigned int index = 99, asked = 0;

	(void)state;
	for (int i = 0; i < 2; i++) {
		nvmlDevice_t d;

		knows_uuids = i == 0;
		d = device();
		assert_int_equal(nvmlDeviceGetIndex(d, &index), NVML_SUCCESS);
		assert_int_equal(index, 0);
		asked = peer_count(CK_PROC_nvmlDeviceGetHandleByIndex_v2);
		assert_int_equal(asked, i == 0 ? 0 : 2);
	}
	assert_int_equal(nvmlDeviceGetHandleByIndex_v2(99, &(nvmlDevice_t){NULL}),
			 NVML_ERROR_INVALID_ARGUMENT);
}

static void an_error_of_nvml_leaves_the_driver_alone(void **state)
{
	nvmlDevice_t d;
	CUcontext context;

	(void)state;
	says = (nvmlReturn_t)CUDA_ERROR_LAUNCH_FAILED;
	assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &d), CUDA_ERROR_LAUNCH_FAILED);
	assert_int_equal(cuCtxGetCurrent(&context), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
}

#ifndef CK_NO_EXPORT_TABLES
static void nvidia_smis_table_knows_devices_and_processes(void **state)
{
	static const unsigned char id[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
					     0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};
	static char room[2][4128];
	nvmlReturn_t (*const *table)(void *, void *, void *);
	nvmlDevice_t d = device();
	unsigned int count = 2, pid;
	const void *found;
	char text[34];

	(void)state;
	assert_int_equal(nvmlInternalGetExportTable(&found, long_text),
			 NVML_ERROR_FUNCTION_NOT_FOUND);
	assert_null(found);
	assert_int_equal(nvmlInternalGetExportTable(&found, id), NVML_SUCCESS);
	table = found;
	assert_true(*(const size_t *)found > 215 * sizeof(void *));
	assert_int_equal(table[81](NULL, text, (void *)sizeof(text)), NVML_SUCCESS);
	assert_string_equal(text, "70707070:70707070:70707070.0");
	assert_int_equal(table[81](NULL, text, (void *)28), NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(table[26]("nvidia-smi %s: %s\n", "stdout", text), NVML_SUCCESS);
	assert_int_equal(table[213](d, &count, room), NVML_SUCCESS);
	memcpy(&pid, room[1], sizeof(pid));
	assert_int_equal(pid, 12);
	assert_int_equal(table[100](d, &count, room), NVML_ERROR_NOT_SUPPORTED);
	assert_int_equal(table[100](NULL, &count, room), NVML_SUCCESS);
}
#endif

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, start, stop)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_works_before_the_start_and_after_the_end),
		EACH(the_child_of_a_fork_has_not_started_nvml),
		EACH(a_handle_that_is_none_is_not_sent),
		EACH(a_null_output_is_not_sent),
		EACH(a_structure_of_another_version_is_not_sent),
		EACH(nvmls_errors_come_back_as_they_are),
		EACH(a_text_that_is_too_long_is_not_written),
		EACH(a_list_that_is_too_long_is_cut),
		EACH(older_programs_get_no_more_than_they_know),
		EACH(what_is_not_made_has_its_own_errors),
		EACH(a_set_of_events_is_one_in_which_nothing_happens),
		EACH(a_device_is_found_by_its_uuid_or_its_number),
		EACH(an_error_of_nvml_leaves_the_driver_alone),
#ifndef CK_NO_EXPORT_TABLES
		EACH(nvidia_smis_table_knows_devices_and_processes),
#endif
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
