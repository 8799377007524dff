/*
 * libcuda/export_integrity.c - table 6 behind cuGetExportTable: an answer that the runtime compares
 * with its own. Where the facts are from: export_tables.c.
 */
#include <pthread.h>
#include <unistd.h>

#include "gen/api.h"
#include "libcuda/export_tables.h"
#include "libcuda/libcuda.h"
#include "libcuda/locks.h"
#include "libcuda/md2.h"
#include "util/util.h"

#ifndef CK_NO_EXPORT_TABLES

CK_EXPORT_UNUSED(integrity)

static void put_integer(struct ck_hmac *hmac, uint64_t value, size_t size)
{
	unsigned char bytes[8];

	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(value >> (8 * i));
	ck_hmac_add(hmac, bytes, size);
}

void ck_integrity_answer(const struct ck_integrity *in, unsigned char answer[16])
{
	static const uint8_t key[CK_MD2_SIZE] = {0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52,
						 0xaa, 0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f};
	struct ck_hmac hmac;

	ck_hmac_init(&hmac, key);
	put_integer(&hmac, in->driver_version, 4);
	put_integer(&hmac, in->version, 4);
	put_integer(&hmac, in->pid, 4);
	put_integer(&hmac, in->thread, 4);
	put_integer(&hmac, in->interface_table, 8);
	put_integer(&hmac, in->integrity_table, 8);
	put_integer(&hmac, in->function, 8);
	put_integer(&hmac, in->seconds, 8);
	for (size_t i = 0; i < in->device_count; i++) {
		const struct ck_integrity_device *d = &in->devices[i];

		ck_hmac_add(&hmac, d->uuid, sizeof(d->uuid));
		put_integer(&hmac, (uint32_t)d->pci_domain, 4);
		put_integer(&hmac, (uint32_t)d->pci_bus, 4);
		put_integer(&hmac, (uint32_t)d->pci_device, 4);
	}
	ck_hmac_end(&hmac, answer);
}

/* The driver's facts in the answer. The same for the whole life of the process. */
static struct {
	bool known; /* atomic; the rest is constant from then on */
	uint32_t driver_version;
	struct ck_integrity_device devices[CK_LIBCUDA_DEVICES];
	size_t device_count;
} facts;
static struct ck_mutex facts_lock = CK_MUTEX(CK_RANK_EXPORT_FACTS);

/* The facts must be those that the public calls tell; the devices in the application's order. */
static CUresult facts_read(void)
{
	int count, version;
	CUresult err = cuDriverGetVersion(&version);

	if (!err)
		err = cuDeviceGetCount(&count);
	if (err)
		return err;
	count = ck_min(count, CK_LIBCUDA_DEVICES);
	for (int i = 0; i < count && !err; i++) {
		struct ck_integrity_device *d = &facts.devices[i];

		err = cuDeviceGetUuid((CUuuid *)d->uuid, i);
		cuDeviceGetAttribute(&d->pci_domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, i);
		cuDeviceGetAttribute(&d->pci_bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i);
		cuDeviceGetAttribute(&d->pci_device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, i);
	}
	facts.driver_version = (uint32_t)version;
	facts.device_count = (size_t)count;
	return err;
}

static bool facts_known(void)
{
	return __atomic_load_n(&facts.known, __ATOMIC_ACQUIRE);
}

void ck_integrity_prepare(void)
{
	if (facts_known())
		return;
	ck_lock(&facts_lock);
	if (!facts_known() && facts_read() == CUDA_SUCCESS)
		__atomic_store_n(&facts.known, true, __ATOMIC_RELEASE);
	ck_unlock(&facts_lock);
}

/*
 * Asked three times, with 0 to 2 added to the runtime's version; the first two are constants.
 *
 * Below kernel-loader this runs on the thread block of the application, whose thread it answers
 * for. So once the facts are known it uses no thread-local data, no lock and no function that does.
 */
static CUresult integrity_answer(uint32_t version, uint64_t seconds, uint64_t result[2])
{
	struct ck_integrity in = {
		.version = version,
		.pid = (uint32_t)getpid(),
		.thread = (uint32_t)pthread_self(),
		.interface_table = (uintptr_t)ck_export_interface,
		.integrity_table = (uintptr_t)ck_export_integrity,
		.function = (uintptr_t)ck_export_integrity[1],
		.seconds = seconds,
		.devices = facts.devices,
	};

	if (!result)
		return CUDA_ERROR_INVALID_VALUE;
	if (version % 10 <= 1) {
		result[0] = version % 10 == 0 ? 0x3341181c03cb675c : 0x1841181c03cb675c;
		result[1] = 0x8ed383aa1f4cd1e8;
		return CUDA_SUCCESS;
	}
	ck_integrity_prepare(); /* the table was asked for before cuInit */
	if (!facts_known())
		return CUDA_ERROR_NOT_INITIALIZED;
	in.driver_version = facts.driver_version;
	in.device_count = facts.device_count;
	ck_integrity_answer(&in, (unsigned char *)result);
	return CUDA_SUCCESS;
}

const void *const ck_export_integrity[3] = {CK_EXPORT_WORDS(3), integrity_answer, integrity_unused};

#endif
