/*
 * launcher/text/parallel.h - spread work that has independent pieces over the processors.
 */
#ifndef CK_LAUNCHER_TEXT_PARALLEL_H
#define CK_LAUNCHER_TEXT_PARALLEL_H

#include <stddef.h>

#define CK_PARALLEL_MAX 16 /* threads of one call, the caller's included */

/*
 * Call work(context, i) once for every i below @count, on this thread and on others, and return
 * when all calls have. There are no more threads than pieces, than processors that this process
 * may use, and than CK_PARALLEL_MAX. If no thread can be started, this one does all the work.
 */
void ckl_parallel(size_t count, void (*work)(void *context, size_t index), void *context);

#endif
