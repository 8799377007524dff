/*
 * emu/cupti/cupti.h - the emulated driver's own CUPTI: the calls that a server's worker makes.
 */
#ifndef CK_EMU_CUPTI_CUPTI_H
#define CK_EMU_CUPTI_CUPTI_H

#include "cuda/cupti.h"
#include "cuda/types.h"

#pragma GCC visibility push(default)

CUptiResult cuptiActivityRegisterCallbacks(ck_cupti_request_fn request,
					   ck_cupti_complete_fn complete);
CUptiResult cuptiActivityEnable(uint32_t kind);
CUptiResult cuptiActivityDisable(uint32_t kind);
CUptiResult cuptiActivityFlushAll(uint32_t flag);
CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record);
CUptiResult cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped);
CUptiResult cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t id);
CUptiResult cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t *last);
CUptiResult cuptiGetVersion(uint32_t *version);
CUptiResult cuptiGetTimestamp(uint64_t *timestamp);
CUptiResult cuptiGetContextId(CUcontext context, uint32_t *number);
CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread,
			       uint32_t *number);

CUptiResult cuptiGetGraphExecId(CUgraphExec exec, uint32_t *number);
CUptiResult cuptiGetGraphId(CUgraph graph, uint32_t *number);

#pragma GCC visibility pop

#endif
