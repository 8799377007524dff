/*
 * client/nvml/nvml.h - NVML over the session of the driver's calls: functions for generated stubs.
 */
#ifndef CK_CLIENT_NVML_NVML_H
#define CK_CLIENT_NVML_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/link/session_list.h"
#include "client/link/stub.h"
#include "cuda/nvml.h"

/* Check that calls may be made: UNINITIALIZED before nvmlInit and after nvmlShutdown. */
nvmlReturn_t ckc_nvml_enter(void);

/* Make a call and wait; @nvml points to NVML's own result in @res. Calls about the list of devices,
 * or about their names, have functions by hand (`client` in rpc/nvml.api). */
nvmlReturn_t ckc_nvml_ask(uint32_t proc, void *args, void *res, const int *nvml);

/* The ordinal of @device, a number of the current session's server, in that session. NOT_FOUND:
 * CUDA does not have it. */
nvmlReturn_t ckc_nvml_ordinal(unsigned int device, unsigned int *ordinal);

/* Convert handles to the server's numbers and back; from then on the call is about that server.
 * INVALID_ARGUMENT: not a handle. NOT_SUPPORTED: the call is about another server's device, too. */
nvmlReturn_t ckc_nvml_device_id(nvmlDevice_t device, unsigned int *id);
nvmlDevice_t ckc_nvml_device(unsigned int id);

/* The size of a structure, from its version word. */
size_t ckc_nvml_size(const void *versioned);

/* Copy the server's data into the caller's array of @room bytes, or text into @room characters. */
void ckc_nvml_bytes(void *to, size_t room, const void *from, size_t size);
nvmlReturn_t ckc_nvml_text(char *to, size_t room, const char *from, size_t size);

/* Log an unsupported call once; returns @code, or UNINITIALIZED. */
nvmlReturn_t ckc_nvml_refused(const char *name, nvmlReturn_t code, bool *told);

/* The table with this id for nvmlInternalGetExportTable, or NULL: client/nvml/nvml_table.c */
const void *ckc_nvml_table(const void *id);

#define CK_NVML_REFUSE(name, code)                                                                 \
	nvmlReturn_t name(void);                                                                   \
	CK_EXPORT nvmlReturn_t name(void)                                                          \
	{                                                                                          \
		static bool told;                                                                  \
		return ckc_nvml_refused(#name, code, &told);                                       \
	}

#endif
