/*
 * libcuda/export_tables.h - the tables behind cuGetExportTable; see export_tables.c.
 */
#ifndef CK_LIBCUDA_EXPORT_TABLES_H
#define CK_LIBCUDA_EXPORT_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

/* What the integrity answer is computed from. */
struct ck_integrity_device {
	unsigned char uuid[16];
	int32_t pci_domain, pci_bus, pci_device;
};

struct ck_integrity {
	uint32_t driver_version, version, pid, thread;
	uint64_t interface_table, integrity_table, function; /* addresses */
	uint64_t seconds;				     /* as the caller gave them */
	const struct ck_integrity_device *devices;
	size_t device_count;
};

/* Pure; for the table's function and for its test. */
void ck_integrity_answer(const struct ck_integrity *in, unsigned char answer[16]);

#endif
