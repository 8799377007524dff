/*
 * client/cupti/api.h - CUPTI's functions that this library has; the others are in refused.def.
 */
#ifndef CK_CLIENT_CUPTI_API_H
#define CK_CLIENT_CUPTI_API_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/cupti.h"
#include "cuda/types.h"

/* activity.c */
CUptiResult cuptiActivityEnable(uint32_t kind);
CUptiResult cuptiActivityDisable(uint32_t kind);
CUptiResult cuptiActivityEnableContext(CUcontext context, uint32_t kind);
CUptiResult cuptiActivityDisableContext(CUcontext context, uint32_t kind);
CUptiResult cuptiActivityEnableDriverApi(uint32_t call, uint8_t enable);
CUptiResult cuptiActivityEnableRuntimeApi(uint32_t call, uint8_t enable);
CUptiResult cuptiActivityRegisterCallbacks(ck_cupti_request_fn request,
					   ck_cupti_complete_fn complete);
CUptiResult cuptiActivityFlushAll(uint32_t flag);
CUptiResult cuptiActivityFlush(CUcontext context, uint32_t stream, uint32_t flag);
CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record);
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped);
CUptiResult cuptiActivitySetAttribute(int attribute, size_t *size, void *value);
CUptiResult cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t id);
CUptiResult cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t *last);
CUptiResult cuptiActivityRegisterTimestampCallback(uint64_t (*clock)(void));
CUptiResult cuptiGetTimestamp(uint64_t *timestamp);
CUptiResult cuptiGetLastError(void);
CUptiResult cuptiFinalize(void);

/* callback.c */
CUptiResult cuptiSubscribe(void **subscriber, ck_cupti_callback_fn callback, void *userdata);
CUptiResult cuptiSubscribe_v2(void **subscriber, ck_cupti_callback_fn callback, void *userdata,
			      void *params);
CUptiResult cuptiGetCallbackState(uint32_t *enable, void *subscriber, uint32_t domain,
				  uint32_t call);
CUptiResult cuptiUnsubscribe(void *subscriber);
CUptiResult cuptiEnableCallback(uint32_t enable, void *subscriber, uint32_t domain, uint32_t call);
CUptiResult cuptiEnableDomain(uint32_t enable, void *subscriber, uint32_t domain);
CUptiResult cuptiEnableAllDomains(uint32_t enable, void *subscriber);
CUptiResult cuptiSupportedDomains(size_t *count, void **domains);

/* nvtx.c: called by NVTX in the program, not by the program */
int InitializeInjectionNvtx2(const void *(*tables)(uint32_t));

/* call_names.c */
CUptiResult cuptiGetCallbackName(uint32_t domain, uint32_t call, const char **name);

/* names.c */
CUptiResult cuptiGetVersion(uint32_t *version);
CUptiResult cuptiGetResultString(CUptiResult result, const char **text);
CUptiResult cuptiGetErrorMessage(CUptiResult result, const char **text);
CUptiResult cuptiSetThreadIdType(int type);
CUptiResult cuptiGetThreadIdType(int *type);

#endif
