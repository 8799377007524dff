/*
 * client/nvml/nvml.h - NVML over the session of the driver's calls: what generated stubs ask for.
 */
#ifndef CK_CLIENT_NVML_NVML_H
#define CK_CLIENT_NVML_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/nvml.h"

/* May calls be made now? UNINITIALIZED before nvmlInit and after nvmlShutdown. */
nvmlReturn_t ck_nvml_enter(void);

/* Make a call and wait; @nvml is the place of NVML's own result inside @res. */
nvmlReturn_t ck_nvml_call(uint32_t proc, void *args, void *res, const int *nvml);

/* Handles and the server's numbers for them. INVALID_ARGUMENT: no handle. */
nvmlReturn_t ck_nvml_device_id(nvmlDevice_t device, unsigned int *id);
nvmlDevice_t ck_nvml_device(unsigned int id);

/* Bytes of a structure by its version word. */
size_t ck_nvml_size(const void *versioned);

/* What the server sent, into the caller's array of @room bytes, or text of @room characters. */
void ck_nvml_bytes(void *to, size_t room, const void *from, size_t size);
nvmlReturn_t ck_nvml_text(char *to, size_t room, const char *from, size_t size);

/* The one line in the log for a call that is not made; @code, or UNINITIALIZED. */
nvmlReturn_t ck_nvml_refused(const char *name, nvmlReturn_t code, bool *told);

/* nvmlInternalGetExportTable's table of that id, or NULL: client/nvml/nvml_table.c */
const void *ck_nvml_table(const void *id);

#define CK_NVML_REFUSE(name, code)                              \
	nvmlReturn_t name(void);                                \
	CK_EXPORT nvmlReturn_t name(void)                       \
	{                                                       \
		static bool told;                               \
		return ck_nvml_refused(#name, code, &told);     \
	}

#endif
