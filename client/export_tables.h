/*
 * client/export_tables.h - the tables behind cuGetExportTable; see export_tables.c.
 */
#ifndef CK_CLIENT_EXPORT_TABLES_H
#define CK_CLIENT_EXPORT_TABLES_H

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

/*
 * Ask the server for the map of @device, which its first reply did not have. Fills both
 * arrays of @tpcs entries. Called at most once a device, with its context current.
 */
CUresult ck_tpc_map_fetch(CUdevice device, unsigned char *gpc, unsigned char *index, size_t tpcs);

/* m3_shim.c: the table of our own that libm3 asks for, or NULL for another id. */
const void *ck_m3_shim_table(const CUuuid *id);

#endif
