/*
 * launcher/driver/limits.h - which limit of the device a launch exceeds.
 */
#ifndef CK_LAUNCHER_DRIVER_LIMITS_H
#define CK_LAUNCHER_DRIVER_LIMITS_H

#include <stddef.h>

#include "launcher/driver/driver.h"
#include "launcher/request/request.h"

/* The first limit that @request exceeds, with its value, as "a block has at most 1024 threads";
 * empty: none. */
void ckl_limits_explain(const struct ckl_driver *driver, const struct ckl_request *request,
			char *out, size_t size);

#endif
