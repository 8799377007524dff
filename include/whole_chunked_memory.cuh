/*
 * include/whole_chunked_memory.cuh - WholeMemory's place for this name: see
 * wcm/whole_chunked_memory.cuh.
 */
#include "../wcm/whole_chunked_memory.cuh"
