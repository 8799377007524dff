/*
 * tests/unit/test_client_module.c - modules and libraries: which image is taken and sent, what
 * becomes of the compiler's logs, handles, and that unloading leaves nothing (ASan looks).
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/modules/code.h"
#include "elf/fatbin.h"
#include "tests/unit/client_peer.h"
#include "tests/unit/elf_data.h"
#include "util/hash.h"

static const char ptx[] = ".version 8.0\n.target sm_50\n.address_size 64\n"
			  ".visible .entry alone(.param .u64 p, .param .u32 n)\n{\n\tret;\n}\n";

/* --- the driver's answers */

static const char *info_log = "", *error_log = "";
static CUresult built;
static CUdeviceptr variable_at = 0x500000;
static char taken[400]; /* memory of the program where a managed variable is on the server */

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	(void)payload;
	if (m->number == CK_PROC_module_build) {
		ck_module_build_res *r = res;

		r->info_log.info_log_val = (char *)(uintptr_t)info_log;
		r->info_log.info_log_len = (u_int)strlen(info_log);
		r->error_log.error_log_val = (char *)(uintptr_t)error_log;
		r->error_log.error_log_len = (u_int)strlen(error_log);
		return built;
	}
	if (m->number == CK_PROC_global) {
		const ck_global_args *args = m->args;
		ck_global_res *r = res;

		r->managed = strcmp(args->name, "taken") == 0;
		if (strcmp(args->name, "table") != 0 && !r->managed)
			return CUDA_ERROR_NOT_FOUND;
		r->dptr = r->managed ? (uintptr_t)taken : variable_at;
		r->bytes = 400;
	}
	if (m->number == CK_PROC_managed_global) {
		ck_managed_global_res *r = res;

		r->dptr = (uintptr_t)taken;
		r->bytes = 400;
	}
	return CUDA_SUCCESS;
}

/* Each test finds no message and leaves no object behind. */
static unsigned int objects;

static void count_object(struct ckc_object *o, void *unused)
{
	(void)unused;
	(void)o;
	objects++;
}

static unsigned int count_objects(void)
{
	objects = 0;
	ckc_object_each(ckc_context_current(), count_object, NULL);
	ckc_object_each(NULL, count_object, NULL);
	return objects;
}

static int test_begin(void **state)
{
	peer_clear();
	ckc_client_current()->hello.accepts_cubin = 1;
	info_log = error_log = "";
	built = CUDA_SUCCESS;
	*state = (void *)(uintptr_t)count_objects();
	return 0;
}

static int test_end(void **state)
{
	return count_objects() == (unsigned int)(uintptr_t)*state ? 0 : -1;
}

/* --- which image */

/* What the peer holds: images by hash, put together from their pieces, for good. */
static struct stored {
	char hash[32];
	unsigned char *data;
	size_t size, have;
} store[64];

static struct stored *find_stored(const char *hash)
{
	struct stored *s = store;

	while (s->data && memcmp(s->hash, hash, 32) != 0)
		s++;
	peer_check(s < store + CK_ARRAY_SIZE(store) - 1);
	return s;
}

static void keep_image(const struct peer_message *m)
{
	const ck_image_args *args = m->args;
	struct stored *s;

	if (m->number != CK_PROC_image)
		return;
	s = find_stored(args->hash);
	if (!s->data) {
		memcpy(s->hash, args->hash, 32);
		s->size = args->size;
		s->data = malloc(s->size);
	}
	peer_check(args->size == s->size && args->offset == s->have);
	peer_check(m->bulk_size <= s->size - s->have);
	memcpy(s->data + s->have, m->bulk, m->bulk_size);
	s->have += m->bulk_size;
}

static int begin(void **state)
{
	peer.call = answer;
	peer.command = keep_image;
	return peer_begin(state);
}

static int end(void **state)
{
	for (struct stored *s = store; s->data; s++)
		free(s->data);
	return peer_end(state);
}

/* Load the data file on a device @major.@minor: the peer must get what ck_fatbin_choose says. */
static void assert_choice(const char *file, unsigned int major, unsigned int minor, bool cubin)
{
	struct elf_data data = elf_data_read(file);
	struct ck_fatbin_device device = {major, minor};
	struct ck_fatbin_choice choice;
	struct stored *image;
	struct ck_hash hash;
	CUmodule module;
	int found;

	peer_clear();
	ckc_client_current()->hello.accepts_cubin = cubin;
	*(int *)(uintptr_t)&ckc_gpu(0)->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] =
		(int)major;
	*(int *)(uintptr_t)&ckc_gpu(0)->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR] =
		(int)minor;
	found = ck_fatbin_choose(data.bytes, data.size, device, cubin, &choice);
	if (found < 0) {
		assert_int_equal(cuModuleLoadData(&module, data.bytes),
				 CUDA_ERROR_NO_BINARY_FOR_GPU);
		assert_int_equal(peer_count(CK_PROC_image), 0);
	} else {
		uint32_t load =
			choice.kind == CK_IMAGE_PTX ? CK_PROC_module_build : CK_PROC_module_load;
		ck_module_load_args *args;

		ck_hash(choice.data, choice.size, &hash);
		assert_int_equal(cuModuleLoadData(&module, data.bytes), CUDA_SUCCESS);
		assert_int_equal(peer_count(load), 1);
		args = peer_args(load, 0); /* the heads of both are alike up to the hash */
		assert_int_equal(args->module, ((struct ckc_module *)module)->object.id);
		assert_int_equal(args->library, 0);
		assert_memory_equal(args->hash, hash.bytes, 32);
		image = find_stored(args->hash);
		assert_int_equal(image->size, choice.size);
		assert_int_equal(image->have, choice.size);
		assert_memory_equal(image->data, choice.data, choice.size);
		ck_fatbin_choice_free(&choice);
		assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
	}
	elf_data_free(&data);
}

static void the_one_image_that_the_device_uses_is_sent(void **state)
{
	static const char *const files[] = {"compress_default.fatbin",
					    "compress_size.fatbin",
					    "compress_speed.fatbin",
					    "compress_none.fatbin",
					    "specific.fatbin",
					    "named.fatbin",
					    "lto.fatbin"};
	static const unsigned int devices[][2] = {{7, 0}, {7, 5},  {8, 0},  {8, 6}, {8, 9},
						  {9, 0}, {10, 0}, {10, 3}, {12, 0}};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(files); i++) {
		for (size_t k = 0; k < CK_ARRAY_SIZE(devices); k++) {
			assert_choice(files[i], devices[k][0], devices[k][1], true);
			assert_choice(files[i], devices[k][0], devices[k][1], false);
		}
	}
	assert_choice("compress_none.fatbin", 9, 0, true); /* as the other tests have it */
}

static void a_module_is_read_from_a_file(void **state)
{
	char path[] = "/tmp/ck-test-XXXXXX";
	struct elf_data data = elf_data_read("compress_none.fatbin");
	int fd = mkstemp(path);
	CUmodule module;
	CUlibrary library;
	CUfunction f;
	CUkernel k;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data.bytes, data.size), data.size);
	close(fd);
	assert_int_equal(cuModuleLoad(&module, path), CUDA_SUCCESS);
	assert_int_equal(cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0),
			 CUDA_SUCCESS);
	assert_int_equal(truncate(path, 100), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(cuModuleGetFunction(&f, module, "add"), CUDA_SUCCESS);
	assert_int_equal(cuLibraryGetKernel(&k, library, "add"), CUDA_SUCCESS);
	assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
	assert_int_equal(cuLibraryGetModule(&module, library), CUDA_SUCCESS);
	assert_int_equal(cuModuleUnload(module), CUDA_ERROR_NOT_PERMITTED);
	assert_int_equal(cuKernelSetCacheConfig(k, CU_FUNC_CACHE_PREFER_EQUAL + 1, 0),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLibraryUnload(library), CUDA_SUCCESS);
	elf_data_free(&data);
}

static void a_cubin_must_be_for_the_device(void **state)
{
	struct elf_data data = elf_data_read("sm_80.cubin"), good = elf_data_read("sm_90.cubin");
	CUmodule module = (CUmodule)state;

	assert_int_equal(cuModuleLoadData(&module, data.bytes), CUDA_ERROR_NO_BINARY_FOR_GPU);
	ckc_client_current()->hello.accepts_cubin = 0;
	assert_int_equal(cuModuleLoadData(&module, good.bytes), CUDA_ERROR_NO_BINARY_FOR_GPU);
	assert_ptr_equal(module, state);
	elf_data_free(&data);
	elf_data_free(&good);
}

/* As driver 580 does on an H200. */
static void a_library_without_code_for_the_device_is_there_but_empty(void **state)
{
	struct elf_data data = elf_data_read("sm_80.cubin");
	CUlibrary library;
	CUmodule module;
	CUkernel kernel;
	CUdeviceptr at;
	size_t size;
	unsigned int n = 9;
	void *unified;

	(void)state;
	peer_clear();
	assert_int_equal(cuLibraryLoadData(&library, data.bytes, NULL, NULL, 0, NULL, NULL, 0),
			 CUDA_SUCCESS);
	assert_int_equal(cuLibraryGetKernelCount(&n, library), CUDA_SUCCESS);
	assert_int_equal(n, 0);
	assert_int_equal(cuLibraryGetUnifiedFunction(&unified, library, "add"),
			 CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuLibraryGetUnifiedFunction(NULL, library, "add"),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLibraryGetUnifiedFunction(&unified, NULL, "add"),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuLibraryGetKernel(&kernel, library, "add"), CUDA_ERROR_NO_BINARY_FOR_GPU);
	assert_int_equal(cuLibraryGetModule(&module, library), CUDA_ERROR_NO_BINARY_FOR_GPU);
	assert_int_equal(cuLibraryGetGlobal(&at, &size, library, "total"),
			 CUDA_ERROR_NO_BINARY_FOR_GPU);
	assert_int_equal(cuLibraryUnload(library), CUDA_SUCCESS);
	assert_int_equal(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(peer_count(CK_PROC_image), 0);
	assert_int_equal(peer_count(CK_PROC_cuLibraryUnload), 0);
	elf_data_free(&data);
}

static void what_is_no_image_is_refused(void **state)
{
	static const char garbage[4096] = {1, 2, 3};
	CUlibrary library;
	CUmodule module;

	(void)state;
	assert_int_equal(cuModuleLoadData(&module, garbage), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuModuleLoadData(NULL, ptx), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLibraryLoadData(&library, garbage, NULL, NULL, 0, NULL, NULL, 0),
			 CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(cuModuleLoad(&module, "/nowhere/at/all"), CUDA_ERROR_FILE_NOT_FOUND);
	assert_int_equal(cuModuleLoad(&module, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuModuleLoad(&module, "/"), CUDA_ERROR_FILE_NOT_FOUND);
	assert_int_equal(cuModuleLoad(&module, "/dev/null"), CUDA_ERROR_FILE_NOT_FOUND);
	assert_int_equal(ckc_command_number(ckc_client_current()), peer.seq);
}

static void an_image_travels_once(void **state)
{
	struct elf_data data = elf_data_read("sm_90.cubin");
	CUmodule a, b;

	(void)state;
	assert_int_equal(cuModuleLoadData(&a, data.bytes), CUDA_SUCCESS);
	peer_clear();
	assert_int_equal(cuModuleLoadData(&b, data.bytes), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_image), 0);
	assert_int_equal(peer_count(CK_PROC_module_load), 1);
	assert_int_equal(cuModuleUnload(a), CUDA_SUCCESS);
	assert_int_equal(cuModuleUnload(b), CUDA_SUCCESS);
	assert_int_equal(cuModuleUnload(b), CUDA_ERROR_INVALID_HANDLE);
	elf_data_free(&data);
}

/* --- images that several threads load at once */

#define LARGE (9u << 20) /* in three messages: the others come in between */
static CUcontext context;
static pthread_barrier_t ready;

static void *load_large(void *text)
{
	CUmodule module;

	peer_check(cuCtxSetCurrent(context) == CUDA_SUCCESS);
	pthread_barrier_wait(&ready);
	peer_check(cuModuleLoadData(&module, text) == CUDA_SUCCESS);
	peer_check(cuModuleUnload(module) == CUDA_SUCCESS);
	return NULL;
}

/* The whole image has arrived before a module is made of it. A thread that comes after the first
 * reply loads the module one-way, because the compiler has accepted the text. */
static void assert_whole_before_use(void)
{
	size_t have = 0, modules = 0;

	for (size_t i = 0; i < peer.count; i++) {
		if (peer.log[i].number == CK_PROC_image)
			have += peer.log[i].bulk_size;
		if (peer.log[i].number != CK_PROC_module_build &&
		    peer.log[i].number != CK_PROC_module_load)
			continue;
		assert_int_equal(have, LARGE);
		modules++;
	}
	assert_int_equal(modules, 4);
}

static void no_thread_uses_an_image_that_another_is_still_sending(void **state)
{
	char *text = malloc(LARGE);
	pthread_t threads[4];

	(void)state;
	assert_int_equal(cuCtxGetCurrent(&context), CUDA_SUCCESS);
	pthread_barrier_init(&ready, NULL, 4);
	for (int round = 0; round < 5; round++) {
		memset(text, ' ', LARGE - 1);
		memcpy(text, ptx, sizeof(ptx) - 1);
		text[LARGE - 2] = "\n\t\r \f"[round]; /* a new image each time */
		text[LARGE - 1] = '\0';
		for (int i = 0; i < 4; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, load_large, text), 0);
		for (int i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		peer_await_all();
		assert_whole_before_use();
		peer_clear();
	}
	pthread_barrier_destroy(&ready);
	free(text);
}

/* --- PTX */

struct build {
	char info[16], error[16];
	CUjit_option options[6];
	void *values[6];
};

static void build_init(struct build *b, size_t info_room, size_t error_room)
{
	memset(b, 0x77, sizeof(*b));
	b->options[0] = CU_JIT_INFO_LOG_BUFFER;
	b->values[0] = b->info;
	b->options[1] = CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES;
	b->values[1] = (void *)info_room;
	b->options[2] = CU_JIT_MAX_REGISTERS;
	b->values[2] = (void *)(uintptr_t)32;
	b->options[3] = CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
	b->values[3] = (void *)error_room;
	b->options[4] = CU_JIT_ERROR_LOG_BUFFER;
	b->values[4] = b->error;
	b->options[5] = CU_JIT_TARGET;
	b->values[5] = (void *)(uintptr_t)90;
}

static void ptx_is_built_with_a_wait_and_logs_land_in_their_buffers(void **state)
{
	const ck_module_build_args *sent;
	struct build b;
	CUmodule module;

	(void)state;
	info_log = "all is well";
	error_log = "but this is longer than its buffer";
	build_init(&b, sizeof(b.info), 8);
	assert_int_equal(cuModuleLoadDataEx(&module, ptx, 6, b.options, b.values), CUDA_SUCCESS);
	assert_string_equal(b.info, "all is well");
	assert_int_equal((uintptr_t)b.values[1], 11);
	assert_int_equal(b.info[12], 0x77);
	assert_string_equal(b.error, "but thi");
	assert_int_equal((uintptr_t)b.values[3], 7);
	assert_int_equal(b.error[8], 0x77);
	assert_int_equal(peer_count(CK_PROC_module_build), 1);
	assert_int_equal(peer_count(CK_PROC_module_load), 0);
	sent = peer_args(CK_PROC_module_build, 0);
	assert_int_equal(sent->options.options_len, 16); /* one that carries a value */
	assert_int_equal(*(const uint32_t *)(const void *)sent->options.options_val,
			 CU_JIT_MAX_REGISTERS);
	assert_int_equal(sent->options.options_val[8], 32);
	assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
}

static void empty_logs_are_empty_strings_of_no_size(void **state)
{
	struct elf_data cubin = elf_data_read("sm_90.cubin");
	const void *images[] = {ptx, cubin.bytes};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct build b;
		CUmodule module;

		build_init(&b, sizeof(b.info), sizeof(b.error));
		assert_int_equal(cuModuleLoadDataEx(&module, images[i], 6, b.options, b.values),
				 CUDA_SUCCESS);
		assert_string_equal(b.info, "");
		assert_string_equal(b.error, "");
		assert_null(b.values[1]);
		assert_null(b.values[3]);
		assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
	}
	elf_data_free(&cubin);
}

static void a_log_without_room_is_left_alone(void **state)
{
	struct build b;
	CUmodule module;

	(void)state;
	info_log = error_log = "something";
	build_init(&b, 0, 1);
	assert_int_equal(cuModuleLoadDataEx(&module, ptx, 6, b.options, b.values), CUDA_SUCCESS);
	assert_int_equal(b.info[0], 0x77);
	assert_int_equal(b.error[0], 0);
	assert_int_equal(b.error[1], 0x77);
	assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
	assert_int_equal(cuModuleLoadDataEx(&module, ptx, 2, NULL, NULL), CUDA_SUCCESS);
	assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
}

static void a_build_that_fails_gives_its_log_and_no_module(void **state)
{
	CUmodule module = (CUmodule)state;
	CUlibrary library = (CUlibrary)state;
	struct build b;

	built = CUDA_ERROR_INVALID_PTX;
	error_log = "line 7";
	build_init(&b, 16, 16);
	assert_int_equal(cuModuleLoadDataEx(&module, ptx, 6, b.options, b.values),
			 CUDA_ERROR_INVALID_PTX);
	assert_string_equal(b.error, "line 7");
	assert_int_equal((uintptr_t)b.values[3], 6);
	assert_ptr_equal(module, state);
	build_init(&b, 16, 16);
	assert_int_equal(cuLibraryLoadData(&library, ptx, b.options, b.values, 6, NULL, NULL, 0),
			 CUDA_ERROR_INVALID_PTX);
	assert_string_equal(b.error, "line 7");
	assert_ptr_equal(library, state);
}

static void ptx_that_cannot_be_read_is_refused_here(void **state)
{
	static const char text[] = ".version 8.0\n.target sm_50\n.entry f(.param";
	struct build b;
	CUmodule module;

	(void)state;
	assert_int_equal(cuModuleLoadData(&module, text), CUDA_ERROR_INVALID_PTX);
	build_init(&b, 16, 16);
	assert_int_equal(cuModuleLoadDataEx(&module, text, 6, b.options, b.values),
			 CUDA_ERROR_INVALID_PTX);
	assert_string_equal(b.error, "error: this is ");
	assert_int_equal((uintptr_t)b.values[3], 15);
	assert_string_equal(b.info, "");
	assert_int_equal((uintptr_t)b.values[1], 0);
	assert_int_equal(peer_count(CK_PROC_module_build), 0);
}

/* --- functions and kernels */

static void names_that_are_not_there_are_not_found(void **state)
{
	struct elf_data data = elf_data_read("sm_90.cubin");
	CUlibrary library;
	CUmodule module;
	CUfunction f = NULL, again = NULL;
	CUkernel k = NULL;
	size_t offset, size;
	unsigned int count;
	const char *name;

	(void)state;
	assert_int_equal(cuModuleLoadData(&module, data.bytes), CUDA_SUCCESS);
	assert_int_equal(cuLibraryLoadData(&library, data.bytes, NULL, NULL, 0, NULL, NULL, 0),
			 CUDA_SUCCESS);
	memset(data.bytes, 0, data.size); /* nothing of the caller's is kept */
	assert_int_equal(cuModuleGetFunction(&f, module, "mixed"), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuModuleGetFunction(&f, module, ""), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuModuleGetFunction(&f, module, "table"), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuModuleGetFunction(&f, module, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuModuleGetFunction(NULL, module, "bounded"), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLibraryGetKernel(&k, library, "mixed_args "), CUDA_ERROR_NOT_FOUND);
	assert_null(f);
	assert_int_equal(cuModuleGetFunction(&f, module, "mixed_args"), CUDA_SUCCESS);
	assert_int_equal(cuModuleGetFunction(&again, module, "mixed_args"), CUDA_SUCCESS);
	assert_ptr_equal(f, again);
	assert_int_equal(cuLibraryGetKernel(&k, library, "mixed_args"), CUDA_SUCCESS);
	assert_ptr_not_equal(f, k);
	assert_int_equal(cuFuncGetName(&name, f), CUDA_SUCCESS);
	assert_string_equal(name, "mixed_args");
	assert_int_equal(cuFuncGetParamInfo(f, 3, &offset, &size), CUDA_SUCCESS);
	assert_true(offset == 16 && size == 24);
	assert_int_equal(cuFuncGetParamInfo(f, 5, &offset, &size), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuModuleGetFunctionCount(&count, module), CUDA_SUCCESS);
	assert_int_equal(count, 5);
	assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
	assert_int_equal(cuLibraryUnload(library), CUDA_SUCCESS);
	assert_int_equal(cuFuncGetName(&name, f), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuKernelGetName(&name, k), CUDA_ERROR_INVALID_HANDLE);
	elf_data_free(&data);
}

static void handles_of_modules_and_libraries_do_not_pass_for_each_other(void **state)
{
	struct elf_data data = elf_data_read("sm_90.cubin");
	CUlibrary library, found;
	CUmodule module;
	unsigned int n;
	CUfunction f;
	CUkernel k;
	CUdeviceptr p;
	uint64_t id;

	(void)state;
	assert_int_equal(cuModuleLoadData(&module, data.bytes), CUDA_SUCCESS);
	assert_int_equal(cuLibraryLoadData(&library, data.bytes, NULL, NULL, 0, NULL, NULL, 0),
			 CUDA_SUCCESS);
	assert_int_equal(cuModuleGetFunction(&f, (CUmodule)library, "no_args"),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuLibraryGetKernel(&k, (CUlibrary)module, "no_args"),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuModuleGetGlobal_v2(&p, NULL, (CUmodule)library, "table"),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuLibraryGetGlobal(&p, NULL, (CUlibrary)module, "table"),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuModuleGetFunctionCount(&n, (CUmodule)library),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuLibraryGetKernelCount(&n, (CUlibrary)module), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuModuleUnload((CUmodule)library), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuLibraryUnload((CUlibrary)module), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuModuleGetFunction(&f, module, "no_args"), CUDA_SUCCESS);
	assert_int_equal(cuLibraryGetKernel(&k, library, "no_args"), CUDA_SUCCESS);
	assert_int_equal(ckc_kernel_id((CUkernel)f, &id), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuKernelGetLibrary(&found, (CUkernel)f), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuKernelGetLibrary(&found, k), CUDA_SUCCESS);
	assert_ptr_equal(found, library);
	assert_int_equal(ckc_function_id((CUfunction)k, &id), CUDA_SUCCESS); /* as CUDA allows */
	assert_int_equal(cuModuleUnload((CUmodule)f), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
	assert_int_equal(cuLibraryUnload(library), CUDA_SUCCESS);
	elf_data_free(&data);
}

static void a_library_s_module_goes_with_the_library(void **state)
{
	struct elf_data data = elf_data_read("sm_90.cubin");
	CUfunction functions[8], f;
	CUmodule module, again;
	CUlibrary library;

	(void)state;
	assert_int_equal(cuLibraryLoadData(&library, data.bytes, NULL, NULL, 0, NULL, NULL, 0),
			 CUDA_SUCCESS);
	assert_int_equal(cuLibraryGetModule(&module, library), CUDA_SUCCESS);
	assert_int_equal(cuLibraryGetModule(&again, library), CUDA_SUCCESS);
	assert_ptr_equal(module, again);
	assert_ptr_not_equal(module, library);
	assert_int_equal(peer_count(CK_PROC_library_module), 1);
	assert_int_equal(cuModuleUnload(module), CUDA_ERROR_NOT_PERMITTED);
	assert_int_equal(cuModuleEnumerateFunctions(functions, 8, module), CUDA_SUCCESS);
	assert_int_equal(cuLibraryEnumerateKernels((CUkernel *)functions, 8, library),
			 CUDA_SUCCESS);
	assert_int_equal(cuModuleGetFunction(&f, module, "no_args"), CUDA_SUCCESS);
	assert_int_equal(cuLibraryUnload(library), CUDA_SUCCESS);
	assert_int_equal(cuModuleGetFunction(&f, module, "no_args"), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(peer_count(CK_PROC_cuLibraryUnload), 1);
	elf_data_free(&data);
}

static void a_library_has_a_module_in_each_context(void **state)
{
	struct elf_data data = elf_data_read("sm_90.cubin");
	const ck_library_module_args *sent;
	CUmodule first, second, again;
	CUlibrary library;
	CUcontext other;
	CUfunction f;

	assert_int_equal(cuLibraryLoadData(&library, data.bytes, NULL, NULL, 0, NULL, NULL, 0),
			 CUDA_SUCCESS);
	assert_int_equal(cuLibraryGetModule(&first, library), CUDA_SUCCESS);
	assert_int_equal(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuLibraryGetModule(&second, library), CUDA_SUCCESS);
	assert_ptr_not_equal(first, second);
	sent = peer_args(CK_PROC_library_module, 1);
	assert_int_equal(sent->head.ctx, ((struct ckc_context *)other)->object.id);
	assert_int_equal(cuCtxDestroy_v2(other), CUDA_SUCCESS);
	assert_int_equal(cuModuleGetFunction(&f, second, "no_args"), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuLibraryGetModule(&again, library), CUDA_SUCCESS);
	assert_ptr_equal(again, first);
	assert_int_equal(cuLibraryUnload(library), CUDA_SUCCESS);
	*state = (char *)*state + 1; /* a context's own slot is never used again */
	elf_data_free(&data);
}

/* --- variables */

static void a_variable_is_asked_for_once_and_goes_with_its_module(void **state)
{
	struct elf_data data = elf_data_read("sm_90.cubin");
	struct ckc_allocation a;
	CUdeviceptr at = 0;
	CUmodule module;
	size_t size = 0;

	(void)state;
	assert_int_equal(cuModuleLoadData(&module, data.bytes), CUDA_SUCCESS);
	for (int i = 0; i < 3; i++)
		assert_int_equal(cuModuleGetGlobal_v2(&at, &size, module, "table"), CUDA_SUCCESS);
	assert_int_equal(at, variable_at);
	assert_int_equal(size, 400);
	assert_int_equal(peer_count(CK_PROC_global), 1);
	assert_int_equal(cuModuleGetGlobal_v2(NULL, NULL, module, "table"), CUDA_SUCCESS);
	assert_int_equal(cuModuleGetGlobal_v2(&at, &size, module, "tabl"), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuModuleGetGlobal_v2(&at, &size, module, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_true(ckc_allocation_find(variable_at + 399, &a));
	assert_true(a.variable);
	assert_int_equal(cuMemFree_v2(variable_at), CUDA_ERROR_INVALID_VALUE);
	ckc_cache_clear();
	assert_int_equal(cuModuleGetGlobal_v2(&at, &size, module, "table"), CUDA_SUCCESS);
	assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
	assert_false(ckc_allocation_find(variable_at, &a));
	elf_data_free(&data);
}

static void a_managed_variable_where_the_program_has_memory_is_refused(void **state)
{
	struct elf_data data = elf_data_read("sm_90.cubin");
	struct ckc_allocation a;
	CUdeviceptr at = 1;
	CUlibrary library;
	CUmodule module;
	size_t size = 1;

	(void)state;
	taken[0] = 5;
	assert_int_equal(cuModuleLoadData(&module, data.bytes), CUDA_SUCCESS);
	assert_int_equal(cuLibraryLoadData(&library, data.bytes, NULL, NULL, 0, NULL, NULL, 0),
			 CUDA_SUCCESS);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(cuModuleGetGlobal_v2(&at, &size, module, "taken"),
				 CUDA_ERROR_NOT_SUPPORTED);
		assert_int_equal(cuLibraryGetGlobal(&at, &size, library, "taken"),
				 CUDA_ERROR_NOT_SUPPORTED);
		assert_int_equal(cuLibraryGetManaged(&at, &size, library, "taken"),
				 CUDA_ERROR_NOT_SUPPORTED);
	}
	assert_int_equal(at, 1);
	assert_int_equal(size, 1);
	assert_int_equal(taken[0], 5);
	assert_false(ckc_allocation_find((uintptr_t)taken, &a));
	assert_int_equal(cuLibraryUnload(library), CUDA_SUCCESS);
	assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
	elf_data_free(&data);
}

/* --- a context that goes takes its modules along */

static void what_a_context_holds_goes_with_it(void **state)
{
	struct elf_data data = elf_data_read("sm_90.cubin");
	CUcontext other;
	CUfunction f;
	CUmodule m;
	CUevent e;
	CUstream s;

	(void)state;
	assert_int_equal(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuModuleLoadData(&m, data.bytes), CUDA_SUCCESS);
	assert_int_equal(cuModuleGetFunction(&f, m, "bounded"), CUDA_SUCCESS);
	assert_int_equal(cuModuleLoadData(&m, ptx), CUDA_SUCCESS);
	assert_int_equal(cuEventCreate(&e, 0), CUDA_SUCCESS);
	assert_int_equal(cuStreamCreate(&s, 0), CUDA_SUCCESS);
	assert_int_equal(cuCtxDestroy_v2(other), CUDA_SUCCESS);
	assert_int_equal(cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
			 CUDA_ERROR_INVALID_HANDLE);
	*state = (char *)*state + 1; /* a context's own slot is never used again */
	elf_data_free(&data);
}

#define module_test(name) cmocka_unit_test_setup_teardown(name, test_begin, test_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		module_test(the_one_image_that_the_device_uses_is_sent),
		module_test(a_module_is_read_from_a_file),
		module_test(a_cubin_must_be_for_the_device),
		module_test(a_library_without_code_for_the_device_is_there_but_empty),
		module_test(what_is_no_image_is_refused),
		module_test(an_image_travels_once),
		module_test(no_thread_uses_an_image_that_another_is_still_sending),
		module_test(ptx_is_built_with_a_wait_and_logs_land_in_their_buffers),
		module_test(empty_logs_are_empty_strings_of_no_size),
		module_test(a_log_without_room_is_left_alone),
		module_test(a_build_that_fails_gives_its_log_and_no_module),
		module_test(ptx_that_cannot_be_read_is_refused_here),
		module_test(names_that_are_not_there_are_not_found),
		module_test(handles_of_modules_and_libraries_do_not_pass_for_each_other),
		module_test(a_library_s_module_goes_with_the_library),
		module_test(a_library_has_a_module_in_each_context),
		module_test(a_variable_is_asked_for_once_and_goes_with_its_module),
		module_test(a_managed_variable_where_the_program_has_memory_is_refused),
		module_test(what_a_context_holds_goes_with_it),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
