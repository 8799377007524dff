/*
 * client/cupti/api.h - CUPTI's functions that this library has; the others are in unsupported.def.
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

/* numbers.c */
CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t *number);
CUptiResult cuptiGetContextId(CUcontext context, uint32_t *number);
CUptiResult cuptiGetStreamId(CUcontext context, CUstream stream, uint32_t *number);
CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread,
			       uint32_t *number);
CUptiResult cuptiGetGraphExecId(CUgraphExec exec, uint32_t *number);
CUptiResult cuptiGetGraphId(CUgraph graph, uint32_t *number);

/* subscriber_calls.c */
CUptiResult cuptiActivityEnable_v2(void *subscriber, uint32_t kind,
				   const struct ck_cupti_config *config);
CUptiResult cuptiActivityDisable_v2(void *subscriber, uint32_t kind,
				    const struct ck_cupti_config *config);
CUptiResult cuptiActivityRegisterCallbacks_v2(void *subscriber, ck_cupti_request_v2_fn request,
					      ck_cupti_complete_v2_fn complete);
CUptiResult cuptiActivityGetNextRecord_v2(void *subscriber, uint8_t *buffer, size_t valid,
					  void **record);
CUptiResult cuptiActivityGetNumDroppedRecords_v2(void *subscriber, CUcontext context,
						 uint32_t stream, size_t *dropped);
CUptiResult cuptiActivitySetAttribute_v2(void *subscriber, int attribute, size_t *size,
					 void *value);
CUptiResult cuptiActivityPushExternalCorrelationId_v2(void *subscriber, uint32_t kind, uint64_t id);
CUptiResult cuptiActivityPopExternalCorrelationId_v2(void *subscriber, uint32_t kind,
						     uint64_t *last);
CUptiResult cuptiGetTimestamp_v2(void *subscriber, uint64_t *timestamp);

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
