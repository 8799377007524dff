/*
 * include/whole_chunked_memory.h - WholeMemory's place for this name: see
 * wcm/whole_chunked_memory.h.
 */
#include "../wcm/whole_chunked_memory.h"
