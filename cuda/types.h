/*
 * cuda/types.h - the types of the CUDA driver API that Cricket handles, all of them.
 */
#ifndef CK_CUDA_TYPES_H
#define CK_CUDA_TYPES_H

#include "cuda/base_types.h"
#include "cuda/control_types.h"
#include "cuda/graph_types.h"
#include "cuda/memory_types.h"
#include "cuda/texture_types.h"

#endif
