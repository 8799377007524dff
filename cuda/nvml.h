/*
 * cuda/nvml.h - what Cricket knows of NVML's types: results, handles, and the structures that it
 * looks into. Others pass through as their bytes; their sizes are in rpc/nvml.api. The layouts are
 * those of x86-64 and of driver 580.
 */
#ifndef CK_CUDA_NVML_H
#define CK_CUDA_NVML_H

typedef enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_ALREADY_INITIALIZED = 5,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_INSUFFICIENT_POWER = 8,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_TIMEOUT = 10,
	NVML_ERROR_IRQ_ISSUE = 11,
	NVML_ERROR_LIBRARY_NOT_FOUND = 12,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
	NVML_ERROR_CORRUPTED_INFOROM = 14,
	NVML_ERROR_GPU_IS_LOST = 15,
	NVML_ERROR_RESET_REQUIRED = 16,
	NVML_ERROR_OPERATING_SYSTEM = 17,
	NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
	NVML_ERROR_IN_USE = 19,
	NVML_ERROR_MEMORY = 20,
	NVML_ERROR_NO_DATA = 21,
	NVML_ERROR_VGPU_ECC_NOT_SUPPORTED = 22,
	NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
	NVML_ERROR_FREQ_NOT_SUPPORTED = 24,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_ERROR_DEPRECATED = 26,
	NVML_ERROR_NOT_READY = 27,
	NVML_ERROR_GPU_NOT_FOUND = 28,
	NVML_ERROR_INVALID_STATE = 29,
	NVML_ERROR_RESET_TYPE_NOT_SUPPORTED = 30,
	NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;

#define NVML_NO_INSTANCE 0xffffffffu /* of a process on a GPU that is not partitioned */

struct nvmlPciInfo_t {
	char busIdLegacy[16]; /* "0000:01:00.0" */
	unsigned int domain, bus, device;
	unsigned int pciDeviceId, pciSubSystemId;
	char busId[32]; /* "00000000:01:00.0" */
};

struct nvmlPciInfoExt_t {
	unsigned int version;
	unsigned int domain, bus, device;
	unsigned int pciDeviceId, pciSubSystemId;
	unsigned int baseClass, subClass;
	char busId[32];
};

struct nvmlMemory_t {
	unsigned long long total, free, used;
};

struct nvmlMemory_v2_t {
	unsigned int version;
	unsigned long long total, reserved, free, used;
};

struct nvmlBAR1Memory_t {
	unsigned long long total, free, used;
};

struct nvmlUtilization_t {
	unsigned int gpu, memory; /* percent */
};

struct nvmlTemperature_t {
	unsigned int version;
	int sensorType;
	int temperature; /* degrees Celsius */
};

struct nvmlProcessInfo_v1_t {
	unsigned int pid;
	unsigned long long usedGpuMemory;
};

struct nvmlProcessInfo_t {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId, computeInstanceId;
};

struct nvmlProcessUtilizationSample_t {
	unsigned int pid;
	unsigned long long timeStamp;			/* microseconds */
	unsigned int smUtil, memUtil, encUtil, decUtil; /* percent */
};

struct nvmlFieldValue_t {
	unsigned int fieldId, scopeId;
	long long timestamp, latencyUsec;
	int valueType;
	nvmlReturn_t nvmlReturn;
	union {
		unsigned int number;
		unsigned long long big;
	} value;
};

struct nvmlConfComputeSystemState_t {
	unsigned int environment, ccFeature, devToolsMode;
};

struct nvmlSystemConfComputeSettings_t {
	unsigned int version;
	unsigned int environment, ccFeature, devToolsMode, multiGpuMode;
};

#endif
