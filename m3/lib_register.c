/* m3/lib_register.c - libm3: telling the broker who the client is. */
#include <string.h>

#include "m3/lib.h"

int m3_register(m3_client *c, const m3_process_info *info)
{
	struct ck_m3_request q;
	int status = M3_OK;

	if (!c)
		return M3_EINVAL;
	ck_m3_request_init(&q, CK_M3_REGISTER);
	if (info) {
		if (!ck_m3_text_ok(info->label, sizeof(info->label), 0))
			return M3_EINVAL;
		strcpy(q.name, info->label);
		status = ck_m3_name_device(c, info->device, &q);
	}
	return status ? status : ck_m3_call(c, NULL, &q, NULL, NULL, NULL);
}

int m3_deregister(m3_client *c)
{
	struct ck_m3_request q;

	if (!c)
		return M3_EINVAL;
	ck_m3_request_init(&q, CK_M3_DEREGISTER);
	return ck_m3_call(c, NULL, &q, NULL, NULL, NULL);
}
