/*
 * tests/unit/server_links.h - a linker that links nothing; links that do not exist must not reach
 * it.
 */
#ifndef CK_TEST_SERVER_LINKS_H
#define CK_TEST_SERVER_LINKS_H

#include <stdlib.h>

#include "gen/driver.h"

static _Atomic int links; /* that exist */

static inline CUresult links_create(unsigned int count, CUjit_option *options, void **values,
				    CUlinkState *state)
{
	(void)count;
	(void)options;
	(void)values;
	*state = (CUlinkState)(uintptr_t)0x77;
	links++;
	return CUDA_SUCCESS;
}

static inline CUresult links_add(CUlinkState state, CUjitInputType type, void *data, size_t size,
				 const char *name, unsigned int count, CUjit_option *options,
				 void **values)
{
	(void)state;
	(void)type;
	(void)data;
	(void)size;
	(void)name;
	(void)count;
	(void)options;
	(void)values;
	if (links == 0)
		abort();
	return CUDA_SUCCESS;
}

static inline CUresult links_complete(CUlinkState state, void **cubin, size_t *size)
{
	(void)state;
	*cubin = (void *)0x1000;
	*size = 5;
	return CUDA_SUCCESS;
}

static inline CUresult links_destroy(CUlinkState state)
{
	(void)state;
	links--;
	return CUDA_SUCCESS;
}

static inline void links_install(void)
{
	links = 0;
	ck_driver.cuLinkCreate_v2 = links_create;
	ck_driver.cuLinkAddData_v2 = links_add;
	ck_driver.cuLinkComplete = links_complete;
	ck_driver.cuLinkDestroy = links_destroy;
}

#endif
