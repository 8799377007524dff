/*
 * launcher/launch/params.h - kernels' parameters as their module describes them, and a launch's
 * arguments in that form.
 */
#ifndef CK_LAUNCHER_LAUNCH_PARAMS_H
#define CK_LAUNCHER_LAUNCH_PARAMS_H

#include "elf/kernels.h"
#include "launcher/request/request.h"

/*
 * The kernels of PTX, of a cubin, or of a fat binary (its PTX before its machine code, which does
 * not say types). A form that we cannot read gives an empty list: the driver may know better.
 */
void ckl_params_kernels(const void *image, size_t size, struct ck_kernels *out);

/*
 * The kernel of that name: exactly, or as the one C++ function of that name (_Z11saxpyKerneliPf).
 * NULL with the failure set, which lists the kernels of the module.
 */
const struct ck_kernel *ckl_params_find(const struct ck_kernels *kernels, const char *name,
					struct ckl_fail *fail);

/* As many arguments as parameters, and arrays where pointers are. */
int ckl_params_check(const struct ck_kernel *kernel, const struct ckl_request *request,
		     struct ckl_fail *fail);

/*
 * Write scalar @index of the request as its parameter: @out has the parameter's bytes. A number
 * without a type takes the parameter's; a type must be as large as that.
 */
int ckl_params_scalar(const struct ck_kernel *kernel, const struct ckl_request *request,
		      size_t index, void *out, struct ckl_fail *fail);

#endif
