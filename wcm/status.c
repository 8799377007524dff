/*
 * wcm/status.c - texts of statuses, sizes of types, the release.
 */
#include "util/util.h"
#include "wcm/lib.h"

static const char *const texts[] = {
	[-WCM_OK] = "success",
	[-WCM_EINVAL] = "invalid argument",
	[-WCM_ENOMEM] = "out of memory",
	[-WCM_EMISMATCH] = "the ranks have different parameters",
	[-WCM_EPEERLOST] = "a rank has ended",
	[-WCM_ENOPEER] = "a device cannot reach another's memory",
	[-WCM_ENOTSUP] = "not supported",
	[-WCM_ETIMEDOUT] = "not all ranks arrived in time",
	[-WCM_EBUSY] = "already exists",
	[-WCM_ENODRIVER] = "no CUDA driver or device",
	[-WCM_EIO] = "a call of the driver or the system failed",
	[-WCM_EPERM] = "belongs to another user",
	[-WCM_EVERSION] = "the ranks' libraries do not match",
};

const char *wcm_strerror(int status)
{
	return status <= 0 && status > -(int)CK_ARRAY_SIZE(texts) ? texts[-status]
								  : "unknown status";
}

size_t wcm_type_size(int type)
{
	static const unsigned char sizes[WCM_TYPES] = {
		[WCM_INT8] = 1, [WCM_INT16] = 2,    [WCM_INT32] = 4, [WCM_INT64] = 8,
		[WCM_HALF] = 2, [WCM_BFLOAT16] = 2, [WCM_FLOAT] = 4, [WCM_DOUBLE] = 8,
	};

	return type >= 0 && type < WCM_TYPES ? sizes[type] : 0;
}

const char *wcm_version(void)
{
	return CK_RELEASE;
}
