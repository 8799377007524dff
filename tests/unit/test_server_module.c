/*
 * tests/unit/test_server_module.c - functions that a client announces: found, and loaded at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gen/handlers.h"
#include "server/session/session.h"
#include "server_fake.h"
#include "tests/unit/server_session.h"

#define MODULE 5 /* ids */
#define LIBRARY 6
#define FUNCTION 7

static struct cks_session *session;
static struct cks_request request;
static int module, library, kernel, function;
static void *loaded; /* by the last call of cuFuncLoad */

static CUresult find_function(CUfunction *out, CUmodule in, const char *name)
{
	assert_ptr_equal(in, &module);
	*out = (CUfunction)&function;
	return strcmp(name, "add") == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUresult find_kernel(CUkernel *out, CUlibrary in, const char *name)
{
	(void)name;
	assert_ptr_equal(in, &library);
	*out = (CUkernel)&kernel;
	return CUDA_SUCCESS;
}

static CUresult function_of(CUfunction *out, CUkernel k)
{
	assert_ptr_equal(k, &kernel);
	*out = (CUfunction)&function;
	return CUDA_SUCCESS;
}

static CUresult load(CUfunction f)
{
	loaded = f;
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	(void)state;
	fake_install();
	ck_driver.cuModuleGetFunction = find_function;
	ck_driver.cuLibraryGetKernel = find_kernel;
	ck_driver.cuKernelGetFunction = function_of;
	ck_driver.cuFuncLoad = load;
	loaded = NULL;
	session = session_without_client();
	request = (struct cks_request){.session = session};
	assert_int_equal(cks_handle_put(&request, MODULE, CK_KIND_MODULE, &module), CUDA_SUCCESS);
	assert_int_equal(cks_handle_put(&request, LIBRARY, CK_KIND_LIBRARY, &library),
			 CUDA_SUCCESS);
	return 0;
}

static int end(void **state)
{
	(void)state;
	cks_session_destroy(session);
	return 0;
}

static CUresult announce(uint64_t in, const char *name)
{
	ck_function_args a = {.function = FUNCTION, .module = in, .name = (char *)(uintptr_t)name};

	return ck_serve_function(&request, &a, NULL);
}

static void a_function_is_loaded_before_it_is_launched(void **state)
{
	(void)state;
	assert_int_equal(announce(MODULE, "add"), CUDA_SUCCESS);
	assert_ptr_equal(loaded, &function);
	assert_ptr_equal(cks_handles_get(session->handles, FUNCTION, CK_KIND_FUNCTION), &function);
}

static void a_kernel_of_a_library_is_loaded_for_the_context(void **state)
{
	(void)state;
	assert_int_equal(announce(LIBRARY, "add"), CUDA_SUCCESS);
	assert_ptr_equal(loaded, &function);
	assert_ptr_equal(cks_handles_get(session->handles, FUNCTION, CK_KIND_KERNEL), &kernel);
}

static void what_is_not_found_is_not_loaded(void **state)
{
	(void)state;
	assert_int_equal(announce(MODULE, "sub"), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(announce(FUNCTION, "add"), CUDA_ERROR_INVALID_HANDLE);
	assert_null(loaded);
}

static void an_old_driver_loads_at_the_launch(void **state)
{
	(void)state;
	ck_driver.cuFuncLoad = NULL;
	assert_int_equal(announce(MODULE, "add"), CUDA_SUCCESS);
	assert_null(loaded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_function_is_loaded_before_it_is_launched, begin,
						end),
		cmocka_unit_test_setup_teardown(a_kernel_of_a_library_is_loaded_for_the_context,
						begin, end),
		cmocka_unit_test_setup_teardown(what_is_not_found_is_not_loaded, begin, end),
		cmocka_unit_test_setup_teardown(an_old_driver_loads_at_the_launch, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
