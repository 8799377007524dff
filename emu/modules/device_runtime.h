/*
 * emu/modules/device_runtime.h - functions of CUDA's device runtime library, for programs linked at
 * run time.
 */
#ifndef CK_EMU_MODULES_DEVICE_RUNTIME_H
#define CK_EMU_MODULES_DEVICE_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether the @size bytes are NVIDIA's libcudadevrt.a: an archive (ar) that has its member.
 * Nothing is assumed of the bytes.
 */
bool ck_emu_is_device_runtime(const void *data, size_t size);

/*
 * PTX in the place of that library, whose functions are machine code: those of cooperative groups,
 * cudaCGGetIntrinsicHandle and cudaCGSynchronize. All are weak. A program that wants another of the
 * library's functions (launches from kernels) stays unresolved and is refused by the linker.
 */
extern const char ck_emu_device_runtime[];

#endif
