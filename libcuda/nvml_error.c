/*
 * libcuda/nvml_error.c - NVML's words for its errors.
 */
#include "cuda/nvml.h"
#include "libcuda/libcuda.h"
#include "util/util.h"

static const char *const texts[] = {
#define CK_TEXT(code, text) [NVML_##code] = text
	CK_TEXT(SUCCESS, "Success"),
	CK_TEXT(ERROR_UNINITIALIZED, "Uninitialized"),
	CK_TEXT(ERROR_INVALID_ARGUMENT, "Invalid Argument"),
	CK_TEXT(ERROR_NOT_SUPPORTED, "Not Supported"),
	CK_TEXT(ERROR_NO_PERMISSION, "Insufficient Permissions"),
	CK_TEXT(ERROR_ALREADY_INITIALIZED, "Already Initialized"),
	CK_TEXT(ERROR_NOT_FOUND, "Not Found"),
	CK_TEXT(ERROR_INSUFFICIENT_SIZE, "Insufficient Size"),
	CK_TEXT(ERROR_INSUFFICIENT_POWER, "Insufficient External Power"),
	CK_TEXT(ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"),
	CK_TEXT(ERROR_TIMEOUT, "Timeout"),
	CK_TEXT(ERROR_IRQ_ISSUE, "Interrupt Request Issue"),
	CK_TEXT(ERROR_LIBRARY_NOT_FOUND, "NVML Shared Library Not Found"),
	CK_TEXT(ERROR_FUNCTION_NOT_FOUND, "Function Not Found"),
	CK_TEXT(ERROR_CORRUPTED_INFOROM, "Corrupted infoROM"),
	CK_TEXT(ERROR_GPU_IS_LOST, "GPU is lost"),
	CK_TEXT(ERROR_RESET_REQUIRED, "GPU requires reset"),
	CK_TEXT(ERROR_OPERATING_SYSTEM, "GPU access blocked by the operating system"),
	CK_TEXT(ERROR_LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch"),
	CK_TEXT(ERROR_IN_USE, "In use by another client"),
	CK_TEXT(ERROR_MEMORY, "Insufficient Memory"),
	CK_TEXT(ERROR_NO_DATA, "No data"),
	CK_TEXT(ERROR_VGPU_ECC_NOT_SUPPORTED, "vGPU with ECC is not supported"),
	CK_TEXT(ERROR_INSUFFICIENT_RESOURCES, "Insufficient resources"),
	CK_TEXT(ERROR_FREQ_NOT_SUPPORTED, "Frequency not supported"),
	CK_TEXT(ERROR_ARGUMENT_VERSION_MISMATCH, "Argument version mismatch"),
	CK_TEXT(ERROR_DEPRECATED, "Deprecated"),
	CK_TEXT(ERROR_NOT_READY, "Not ready"),
	CK_TEXT(ERROR_GPU_NOT_FOUND, "No GPUs found"),
	CK_TEXT(ERROR_INVALID_STATE, "Invalid state"),
	CK_TEXT(ERROR_RESET_TYPE_NOT_SUPPORTED, "Reset type not supported"),
#undef CK_TEXT
};

const char *ck_nvml_error_text(unsigned int code)
{
	return code < CK_ARRAY_SIZE(texts) && texts[code] ? texts[code] : "Unknown Error";
}
