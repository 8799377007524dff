/*
 * launcher/launch/run.h - carry out requests on the GPU, one after the other.
 */
#ifndef CK_LAUNCHER_LAUNCH_RUN_H
#define CK_LAUNCHER_LAUNCH_RUN_H

#include <stdbool.h>

#include "launcher/driver/driver.h"
#include "launcher/launch/module.h"
#include "launcher/request/request.h"
#include "launcher/text/output_buffer.h"
#include "util/map.h"

#define CK_SPARE_WORKERS 64 /* pieces of device memory kept for the next launch */

struct ckl_spare {
	CUdeviceptr address;
	size_t size;
};

/* State that lasts from one request to the next. */
struct ckl_runner {
	struct ckl_driver driver;
	struct ckl_modules modules;
	struct ck_map *kept; /* name to struct ckl_kept: arrays that stay on the GPU */
	struct ckl_spare spares[CK_SPARE_WORKERS];
	size_t spare_count;
	const char *running; /* a kernel that has been launched and not waited for, or NULL */
	bool lost;	     /* the context is: this process can do no more */
};

/*
 * Carry out one message (CK_LAUNCH, CK_READ or CK_FREE) and write its whole reply, a result or an
 * error object, in the message's own form. @id: of an asynchronous launch, else 0. Returns the exit
 * code of it. @request was read from @message; a failure to read it is in @fail.
 */
enum ckl_exit ckl_run(struct ckl_runner *runner, struct ckl_request *request, bool frame,
		      uint64_t id, struct ckl_out *out, struct ckl_fail *fail);

/* --- between run.c, buffer.c and result.c */

struct ckl_kept {
	CUdeviceptr address;
	enum ckl_type type;
	size_t count, size;
};

/* An argument on its way. */
struct ckl_buffer {
	CUdeviceptr address;
	size_t size;
	void *host;   /* malloc'ed bytes of it, or NULL */
	void *shared; /* mapping of its shared memory, or NULL */
	enum ckl_type type;
	size_t count;
};

/* Milliseconds that the parts of a launch took. */
struct ckl_timing {
	double load, to_device, kernel, to_host;
};

double ckl_milliseconds(void); /* of the monotonic clock */

/* Device memory for argument @arg with its content. */
int ckl_buffer_fill(struct ckl_runner *runner, const struct ckl_arg *arg, struct ckl_buffer *buffer,
		    struct ckl_fail *fail);

/* Bring its content back to @to, or to shared memory, or to buffer->host when @to is NULL. */
int ckl_buffer_fetch(struct ckl_runner *runner, struct ckl_buffer *buffer, void *to,
		     struct ckl_fail *fail);

/* Let go of it; when @keep it stays on the GPU under the argument's name. */
void ckl_buffer_release(struct ckl_runner *runner, const struct ckl_arg *arg,
			struct ckl_buffer *buffer, bool keep);

/* Free an array that was kept. -ENOENT: there is none of that name. */
int ckl_buffer_forget(struct ckl_runner *runner, const char *name);

/* The reply with all returned arrays. */
int ckl_result_write(struct ckl_runner *runner, const struct ckl_request *request,
		     struct ckl_buffer *buffers, bool frame, uint64_t id, struct ckl_timing *timing,
		     struct ckl_out *out, struct ckl_fail *fail);

#endif
