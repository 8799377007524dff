/*
 * server/policy/meter.c - see meter.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cricket.h"
#include "server/policy/account.h"
#include "server/policy/meter.h"
#include "server/policy/meter_part.h"
#include "server/session/device_map.h"
#include "server/session/driver.h"
#include "server/session/locks.h"
#include "server/session/user_messages.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_NOT_ASKED (-2)

/* Of the process, which has one session. */
static struct {
	struct ck_mutex lock;
	struct cks_account *account; /* NULL: no policy */
	uint32_t seat;
	bool begun;
	int index[CK_MAX_DEVICES]; /* of devices in the account; -1: not counted */
	uint64_t total[CK_MAX_DEVICES];
	uint64_t wish;		      /* most of these on each device; 0: no such limit */
	uint64_t own[CK_MAX_DEVICES]; /* bytes that this session has */
	uint64_t contexts;	      /* that it has; of them, primary ones: */
	bool primary[CK_MAX_DEVICES];
	bool held; /* charges and refunds do not count */
} meter = {.lock = CK_MUTEX(CK_RANK_METER)};

struct ck_driver cks_meter_driver;

/* --- devices. Call with the lock held. */

static void forget_devices(void)
{
	for (int i = 0; i < CK_MAX_DEVICES; i++)
		meter.index[i] = CK_NOT_ASKED;
}

static int ask_device(CUdevice device)
{
	const struct ck_driver *d = &cks_meter_driver;
	unsigned char uuid[16];
	size_t total = 0;

	if (!cks_device_map_find(device, uuid))
		return -1;
	/* GPUs that a device can move to have equal memory; and the driver may be locked */
	if (meter.total[device] == 0 &&
	    (!d->cuDeviceTotalMem_v2 || d->cuDeviceTotalMem_v2(&total, device)))
		return -1;
	if (total > 0)
		meter.total[device] = total;
	return cks_account_device(meter.account, uuid);
}

/* The device's number in the account; -1: it is not counted. */
static int index_of(CUdevice device)
{
	if (!meter.account || device < 0 || device >= CK_MAX_DEVICES)
		return -1;
	if (meter.index[device] == CK_NOT_ASKED)
		meter.index[device] = ask_device(device);
	return meter.index[device];
}

/* --- the account */

/* The session's memory moves to the new account, also if that is more than the account allows. */
static void move_to(struct cks_account *account, uint32_t seat)
{
	struct cks_account *old = meter.account;

	meter.account = account;
	meter.seat = seat;
	forget_devices();
	for (int i = 0; i < CK_MAX_DEVICES; i++) {
		if (meter.own[i] > 0 && index_of(i) >= 0)
			cks_account_move(account, seat, index_of(i), meter.own[i]);
	}
	if (meter.contexts > 0)
		cks_account_move(account, seat, CK_ACCOUNT_CONTEXTS, meter.contexts);
	cks_account_unmap(old); /* the supervisor knows that this session has left it */
}

int cks_meter_account(int fd, uint32_t seat)
{
	struct cks_account *account;
	int ret = cks_account_map(fd, seat, &account);

	close(fd);
	if (ret < 0)
		return ret;
	ck_lock(&meter.lock);
	move_to(account, seat);
	ck_unlock(&meter.lock);
	return 0;
}

void cks_meter_moved(void)
{
	int index;

	ck_lock(&meter.lock);
	for (int i = 0; meter.account && i < CK_MAX_DEVICES; i++) {
		if (meter.own[i] > 0 && meter.index[i] >= 0)
			cks_account_refund(meter.account, meter.seat, meter.index[i], meter.own[i]);
	}
	forget_devices();
	for (int i = 0; meter.account && i < CK_MAX_DEVICES; i++) {
		index = meter.own[i] > 0 ? index_of(i) : -1;
		if (index >= 0)
			cks_account_move(meter.account, meter.seat, index, meter.own[i]);
	}
	ck_unlock(&meter.lock);
}

bool cks_meter_is_own(unsigned int pid)
{
	bool own;

	ck_lock(&meter.lock);
	own = meter.account && cks_account_has(meter.account, pid);
	ck_unlock(&meter.lock);
	return own;
}

void cks_meter_terms(struct cks_terms *out)
{
	*out = cks_terms_none();
	ck_lock(&meter.lock);
	if (meter.account)
		cks_account_terms(meter.account, out);
	ck_unlock(&meter.lock);
}

/* As in "20G", "512M": in the largest unit that is exact. */
static const char *print_bytes(uint64_t bytes, char out[32])
{
	static const char units[] = "TGMK";
	int unit = 0, shift = 40;

	for (; shift > 0 && (bytes == 0 || bytes & ((UINT64_C(1) << shift) - 1)); shift -= 10)
		unit++;
	snprintf(out, 32, "%llu%.1s", (unsigned long long)bytes >> shift, units + unit);
	return out;
}

/* For the program's user: the policy leaves no room for @size bytes. */
static void explain_policy(CUdevice device, size_t size)
{
	uint64_t most, left = cks_account_left(meter.account, &most);
	bool all = most < CK_ACCOUNT_UNLIMITED && left < size;
	char line[128], text[32];

	if (!all)
		most = cks_account_limit(meter.account, meter.total[device]);
	snprintf(line, sizeof(line), "no more GPU memory: the policy gives your sessions %s %s",
		 print_bytes(most, text), all ? "on all GPUs together" : "of each GPU");
	cks_user_messages_refuse(line);
}

/* The same for the session's own limit. */
static void explain_wish(void)
{
	char line[128], text[32];

	snprintf(
		line, sizeof(line),
		"no more GPU memory: the session's limit is %s of each GPU (--mem, CRICKET_MEMORY)",
		print_bytes(meter.wish, text));
	cks_user_messages_refuse(line);
}

/* Call with the lock held. */
static bool charge_device(CUdevice device, size_t size)
{
	int index = index_of(device);
	bool fits;

	if (meter.wish && (size > meter.wish || meter.own[device] > meter.wish - size)) {
		explain_wish();
		return false;
	}
	fits = index < 0 ||
	       cks_account_charge(meter.account, meter.seat, index, size,
				  cks_account_limit(meter.account, meter.total[device]));
	if (!fits)
		explain_policy(device, size);
	meter.own[device] += fits ? size : 0;
	return fits;
}

bool cks_meter_charge(CUdevice device, size_t size)
{
	bool fits;

	if (device < 0 || device >= CK_MAX_DEVICES)
		return true;
	ck_lock(&meter.lock);
	fits = meter.held || charge_device(device, size);
	ck_unlock(&meter.lock);
	if (!fits)
		ck_debug("the quota has no room for %zu bytes on device %d", size, device);
	return fits;
}

void cks_meter_refund(CUdevice device, size_t size)
{
	int index;

	if (device < 0 || device >= CK_MAX_DEVICES)
		return;
	ck_lock(&meter.lock);
	if (meter.held)
		goto unlock;
	index = index_of(device);
	if (index >= 0)
		cks_account_refund(meter.account, meter.seat, index, size);
	meter.own[device] -= ck_min((uint64_t)size, meter.own[device]);
unlock:
	ck_unlock(&meter.lock);
}

void cks_meter_hold(bool held)
{
	ck_lock(&meter.lock);
	meter.held = held;
	ck_unlock(&meter.lock);
}

/* Another limit, @most, of which @left are left: if that leaves less. */
static void narrow_limit(uint64_t most, uint64_t left, uint64_t *limit, uint64_t *used)
{
	uint64_t free = *limit > *used ? *limit - *used : 0;

	*limit = ck_min(*limit, most);
	*used = *limit - ck_min(ck_min(free, left), *limit);
}

/* The limits of all devices together, and of the session. Call with the lock held. */
static void narrow_all(CUdevice device, uint64_t *limit, uint64_t *used)
{
	uint64_t most = CK_ACCOUNT_UNLIMITED, left;

	if (meter.account) {
		left = cks_account_left(meter.account, &most);
		if (most < CK_ACCOUNT_UNLIMITED)
			narrow_limit(most, left, limit, used);
	}
	if (meter.wish) {
		left = meter.wish - ck_min(meter.own[device], meter.wish);
		narrow_limit(meter.wish, left, limit, used);
	}
}

bool cks_meter_quota(CUdevice device, uint64_t *limit, uint64_t *used)
{
	int index;

	*limit = CK_ACCOUNT_UNLIMITED;
	*used = 0;
	if (device < 0 || device >= CK_MAX_DEVICES)
		return false;
	ck_lock(&meter.lock);
	index = index_of(device);
	if (index >= 0)
		*limit = cks_account_limit(meter.account, meter.total[device]);
	if (*limit < CK_ACCOUNT_UNLIMITED)
		*used = cks_account_used(meter.account, index);
	narrow_all(device, limit, used);
	ck_unlock(&meter.lock);
	return *limit < CK_ACCOUNT_UNLIMITED;
}

bool cks_meter_takes_turns(CUdevice device, uint64_t *own)
{
	struct cks_terms terms;
	bool known = device >= 0 && device < CK_MAX_DEVICES;

	cks_meter_terms(&terms);
	ck_lock(&meter.lock);
	*own = known ? meter.own[device] : 0;
	ck_unlock(&meter.lock);
	return known && terms.overcommit;
}

/* --- contexts. The first three with the lock held. */

static void explain_contexts(void)
{
	char line[128];

	snprintf(line, sizeof(line), "no more contexts: the policy gives your sessions %llu",
		 (unsigned long long)cks_account_context_limit(meter.account));
	cks_user_messages_refuse(line);
}

static bool begin_context(void)
{
	bool fits =
		!meter.account || cks_account_charge(meter.account, meter.seat, CK_ACCOUNT_CONTEXTS,
						     1, cks_account_context_limit(meter.account));

	meter.contexts += fits;
	if (!fits)
		explain_contexts();
	return fits;
}

static void end_context(void)
{
	if (meter.contexts == 0)
		return;
	meter.contexts--;
	if (meter.account)
		cks_account_refund(meter.account, meter.seat, CK_ACCOUNT_CONTEXTS, 1);
}

bool cks_meter_context_begin(void)
{
	bool fits;

	ck_lock(&meter.lock);
	fits = begin_context();
	ck_unlock(&meter.lock);
	if (!fits)
		ck_debug("the quota has no room for a context");
	return fits;
}

void cks_meter_context_end(void)
{
	ck_lock(&meter.lock);
	end_context();
	ck_unlock(&meter.lock);
}

bool cks_meter_primary_begin(CUdevice device)
{
	bool fits = true;

	if (device < 0 || device >= CK_MAX_DEVICES)
		return true; /* the driver refuses it */
	ck_lock(&meter.lock);
	if (!meter.primary[device])
		fits = meter.primary[device] = begin_context();
	ck_unlock(&meter.lock);
	return fits;
}

void cks_meter_primary_end(CUdevice device)
{
	if (device < 0 || device >= CK_MAX_DEVICES)
		return;
	ck_lock(&meter.lock);
	if (meter.primary[device])
		end_context();
	meter.primary[device] = false;
	ck_unlock(&meter.lock);
}

void cks_meter_begin(uint64_t wish)
{
	if ((!meter.account && !wish) || meter.begun)
		return;
	meter.wish = wish;
	meter.begun = true;
	forget_devices();
	cks_meter_driver = ck_driver;
	cks_meter_take_over();
}
