/*
 * tests/unit/managed_peer.h - a server whose device memory is an array, for tests of pages that
 * program and device both use.
 */
#ifndef CK_TEST_MANAGED_PEER_H
#define CK_TEST_MANAGED_PEER_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/managed/managed.h"
#include "client/managed/window.h"
#include "tests/unit/client_peer.h"

#define ok(call) assert_int_equal(call, CUDA_SUCCESS)
#define invalid(call) assert_int_equal(call, CUDA_ERROR_INVALID_VALUE)

#define DEVICE ((size_t)48 << 20) /* bytes of the fake device, from the window's parts on */
#define PAGES 64
#define SIZE (PAGES * CK_PAGE)

static unsigned char *device;
static uint64_t device_base;
static CUresult fetch_error;

/* Where the fake device keeps @address: all large pieces lie together, small ones before. */
static inline unsigned char *place(uint64_t address)
{
	uint64_t offset = address - device_base;

	if (offset >= 8192ull << 21) /* the window's upper part */
		offset -= (8192ull << 21) - DEVICE / 2;
	peer_check(offset < DEVICE);
	return device + offset;
}

/* A function of the program: handed out when the test says so; whether a launch came before its
 * end. */
static _Atomic uint64_t to_call;
static _Atomic bool returned, launched, launched_behind;

static inline void function(void *unused)
{
	(void)unused;
	usleep(50000);
	returned = true;
}

static inline void hand_out(ck_callback_next_res *res)
{
	res->callback = atomic_exchange(&to_call, 0);
	res->ticket = res->callback != 0;
	if (!res->ticket)
		usleep(2000);
}

static inline void command(const struct peer_message *m)
{
	const ck_upload_args *a = m->args;

	if (m->number == CK_PROC_upload)
		memcpy(place(a->dst), m->bulk, m->bulk_size);
	if (m->number == CK_PROC_launch) {
		launched_behind = returned;
		launched = true;
	}
}

/* In use here are all round addresses, and the end of where the program first has room: it has to
 * look below that. */
static inline bool takes(const ck_window_args *a)
{
	static uint64_t used;

	if (a->address % (1ull << 44) == 0)
		return false;
	used = used ? used : a->address + a->size - (1ul << 30);
	device_base = a->address;
	return a->address + a->size <= used;
}

static inline CUresult call(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	const ck_fetch_args *f = m->args;

	if (m->number == CK_PROC_callback_next) {
		hand_out(res);
	} else if (m->number == CK_PROC_window) {
		((ck_window_res *)res)->taken = takes(m->args);
	} else if (m->number == CK_PROC_map) {
		const ck_map_args *a = m->args;

		memset(place(a->address), 0, a->size);
	} else if (m->number == CK_PROC_upload_part) {
		const ck_upload_part_args *a = m->args;

		memcpy(place(a->dst), m->bulk, m->bulk_size);
	} else if (m->number == CK_PROC_fetch && f->size > 0) {
		if (fetch_error)
			return fetch_error;
		*payload = (struct peer_payload){place(f->src), f->size};
	}
	return CUDA_SUCCESS;
}

static inline int begin(void **state)
{
	device = calloc(1, DEVICE);
	peer.command = command;
	peer.call = call;
	if (peer_begin(state) < 0)
		return -1;
	ckc_client_current()->passes_fds = false; /* as if the server were on another host */
	return 0;
}

static inline volatile unsigned char *allocate(size_t size)
{
	CUdeviceptr p = 0;

	ok(cuMemAllocManaged(&p, size, CU_MEM_ATTACH_GLOBAL));
	peer_clear();
	return (volatile unsigned char *)p;
}

static inline void release(volatile unsigned char *p)
{
	ok(cuMemFree_v2((CUdeviceptr)p));
	peer_await_all();
}

/* Bytes sent since peer_clear. */
static inline size_t sent(void)
{
	size_t bytes = 0;

	peer_await_all();
	for (size_t i = 0; i < peer.count; i++)
		bytes += peer.log[i].number == CK_PROC_upload ? peer.log[i].bulk_size : 0;
	return bytes;
}

static inline size_t fetched(void)
{
	size_t bytes = 0;
	ck_fetch_args *a;

	for (size_t i = 0; (a = peer_args(CK_PROC_fetch, i)) != NULL; i++)
		bytes += a->size;
	return bytes;
}

/* A handler of SIGBUS that goes back there. */
static sigjmp_buf back;
static void *volatile raised_at;

static inline void on_bus_error(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	raised_at = info->si_addr;
	siglongjmp(back, 1);
}

#endif
