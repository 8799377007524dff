/*
 * libcuda/nvml_error.h - NVML's words for its errors.
 */
#ifndef CK_LIBCUDA_NVML_ERROR_H
#define CK_LIBCUDA_NVML_ERROR_H

const char *ck_nvml_error_text(unsigned int code);

#endif
