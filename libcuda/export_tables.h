/*
 * libcuda/export_tables.h - the tables behind cuGetExportTable; see export_tables.c.
 */
#ifndef CK_LIBCUDA_EXPORT_TABLES_H
#define CK_LIBCUDA_EXPORT_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

/* The first word of a table of @n: its size in bytes. */
#define CK_EXPORT_WORDS(n) ((void *)((n) * sizeof(void *)))

/* The function in all slots of one table that are not understood. */
#define CK_EXPORT_UNUSED(name)                                                                     \
	static CUresult name##_unused(void)                                                        \
	{                                                                                          \
		static bool told;                                                                  \
		return ck_export_unused(#name, &told, __builtin_return_address(0));                \
	}

/* Log once, by *@told, which table was called and by which file: NOT_SUPPORTED. */
CUresult ck_export_unused(const char *table, bool *told, const void *caller);

/* Ask the runtimes in the process to report their calls (ck_libcuda_runtime_call), or not to. */
void ck_export_hooks_set(bool on);

/* Tables that more than one file knows, by their numbers in export_tables.c: 1, 6, 9. */
extern const void *const ck_export_interface[13];
extern const void *const ck_export_integrity[3];
extern const void *const ck_export_tpc[17];

/* The inputs of the integrity answer. */
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

/*
 * Ask the driver library for the facts that the answer covers. cuGetExportTable does this when it
 * gives table 6, because the table's function may run on another libc's thread block. Does nothing
 * before cuInit.
 */
void ck_integrity_prepare(void);

/* Pure; for the table's function and for its test. */
void ck_integrity_answer(const struct ck_integrity *in, unsigned char answer[16]);

#endif
