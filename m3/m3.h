/*
 * m3.h - M3: GPU memory that processes share by name.
 *
 * A broker (m3-server, or the one that cricket-rpc-server carries) owns the memory; programs create
 * regions, attach to them by name, and map them into their own address space. A program may be an
 * ordinary CUDA program on the broker's host, a client of a Cricket server (its session maps for
 * it), or have no CUDA at all (m3_read, m3_write, m3_copy, m3_fill).
 *
 * Every call returns 0 or a negative m3_status, and none ends the process. Sizes are bytes; devices
 * are the numbers that CUDA gives them in this process (the broker's, in one without CUDA). Objects
 * may be used by all threads; a call of one client waits for the one before it.
 */
#ifndef M3_H
#define M3_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define M3_API __attribute__((visibility("default")))
#define M3_NAME_MAX 256	    /* bytes of a region's name, with its NUL */
#define M3_PRINCIPAL_MAX 64 /* bytes of a principal ("uid:1000"), with its NUL */
#define M3_DEVICES_MAX 32
#define M3_EVENT_SIZE 64
#define M3_ANY_DEVICE (-1) /* the device that the client said it wants, else the first */

typedef enum m3_status {
	M3_OK = 0,
	M3_EINVAL = -1, /* an argument makes no sense */
	M3_EPROTO = -2, /* the other end did not keep to the protocol */
	M3_EPERM = -3,
	M3_ENOENT = -4,	    /* no such region, or none that the caller may see */
	M3_EEXIST = -5,	    /* M3_EXCL, and the name is taken */
	M3_EMISMATCH = -6,  /* the name is taken by memory of another size or device */
	M3_EDUPLICATE = -7, /* registered already */
	M3_ENOMEM = -8,	    /* the device (or the host) has no more */
	M3_EQUOTA = -9,	    /* the principal may not have more */
	M3_ENOPEER = -10,   /* one device cannot reach the other's memory */
	M3_ENOTSUP = -11,
	M3_EBUSY = -12,
	M3_ETIMEDOUT = -13,
	M3_ESTALE = -14, /* the region was of a broker that is gone; mappings still work */
	M3_EDEVLOST = -15,
	M3_EIO = -16,	   /* no broker, or a call of the driver failed */
	M3_EVERSION = -17, /* library and broker do not match */
} m3_status;

typedef struct m3_client m3_client;
typedef struct m3_region m3_region;
typedef uint64_t m3_rid; /* 16 bits of the broker's life, 48 of a number; never used again */
typedef unsigned long long m3_device_ptr; /* a CUdeviceptr */

enum m3_access { M3_READ = 1, M3_READWRITE = 3 };

enum m3_policy {
	M3_EXPLICIT = 0,       /* on the request's device */
	M3_SAME_AS_CALLER = 1, /* on the device that the client said it wants */
	M3_MOST_FREE = 2,      /* where the broker has given the least of the memory there is */
	M3_PEER_OF = 3,	       /* on another device that the request's can reach */
	M3_STRIPED = 4,	       /* in equal parts on the request's device and others it can reach */
};

enum m3_flags {
	M3_CREATE = 1,	     /* attach, or create it: 0 has this meaning too */
	M3_EXCL = 2,	     /* create; M3_EEXIST when it is there */
	M3_ATTACH_ONLY = 4,  /* M3_ENOENT when it is not there */
	M3_ZERO = 8,	     /* filled with zeros; new memory always is */
	M3_SEALABLE = 16,    /* m3_seal is allowed */
	M3_RDMA = 32,	     /* for devices that reach it over PCIe (gpuDirectRDMACapable) */
	M3_FABRIC_OK = 64,   /* accepted; memory is shared by descriptors */
	M3_DETACHED = 128,   /* stays without users until it is unlinked */
	M3_NO_MAP = 256,     /* m3_alloc does not map it */
	M3_RECOMMENDED = 512 /* m3_rounded_size: the granularity that is best, not the smallest */
};

enum m3_state { M3_CREATING, M3_LIVE, M3_SEALED, M3_UNLINKED, M3_DRAINING, M3_FREED };
enum m3_lease_kind { M3_LEASE_RO = 1, M3_LEASE_RW = 2 };

enum m3_event_mask {
	M3_ON_REGION_LOST = 1, /* a region that this client could open has gone */
	M3_ON_DEVICE_LOST = 2,
	M3_ON_QUOTA = 4, /* nine tenths of the quota are used */
	M3_ON_BROKER_LOST = 8,
};

typedef struct m3_opts {
	const char *path;      /* the broker's socket; NULL: CRICKET_M3, else the usual places */
	int device;	       /* wanted, or M3_ANY_DEVICE */
	int no_driver;	       /* do not search for a CUDA driver in this process */
	const char *principal; /* the principal to act for; only the broker's own user and root
			        * may set it */
} m3_opts;

typedef struct m3_process_info {
	int pid; /* of no consequence: the kernel says who the client is */
	int device;
	char label[64];
} m3_process_info;

typedef struct m3_alloc_req {
	const char *mem_id;   /* UTF-8, not empty; NULL: a region without a name */
	uint64_t bytes;	      /* rounded up to the granularity */
	uint64_t alignment;   /* of the address; 0 or a power of two */
	int device;	      /* or M3_ANY_DEVICE */
	int policy;	      /* enum m3_policy */
	int access;	      /* enum m3_access; 0: M3_READWRITE */
	unsigned int mode;    /* 0600: the owner's principal; 0666: everybody; 0: 0600 */
	unsigned int flags;   /* enum m3_flags */
	unsigned int stripes; /* M3_STRIPED: on how many devices; 0: on all that it can reach */
} m3_alloc_req;

typedef struct m3_info {
	m3_rid rid;
	uint64_t bytes;
	uint64_t age_ms;
	int32_t device; /* -1: none that this process sees; of a striped one, of its first part */
	uint32_t refs, maps;
	uint32_t state; /* enum m3_state */
	uint32_t mode, flags;
	uint32_t access;	/* of the caller */
	uint32_t handle_types;	/* as CUmemAllocationHandleType */
	uint32_t stripes;	/* parts of bytes / stripes, each on another device; mostly 1 */
	unsigned char uuid[16]; /* of the device */
	char owner[M3_PRINCIPAL_MAX];
	char mem_id[M3_NAME_MAX]; /* empty: without a name */
} m3_info;

typedef struct m3_topo {
	int32_t count;
	struct m3_topo_device {
		int32_t device;		  /* in this process; -1: not seen */
		uint32_t vmm, fd, fabric; /* its supported features */
		uint64_t bytes, used;	  /* of the device; of those, given by the broker */
		uint32_t peers;		  /* bit i: reaches the memory of entry i */
		uint32_t links;		  /* bit i: and carries its atomics, as NVLink does */
		unsigned char uuid[16];
	} devices[M3_DEVICES_MAX];
} m3_topo;

/*
 * Connect to the broker; @opts may be NULL. Disconnecting, or the end of the process, releases all
 * of the client's references. Regions are freed with m3_release, before or after. Memory that is
 * still mapped then stays charged to the principal until the process ends. In a client of a Cricket
 * server, whose session continues, that memory is released and no longer charged, though its
 * mappings work until they are unmapped.
 */
M3_API int m3_connect(const m3_opts *opts, m3_client **client);
/*
 * The same with no options. Where no broker runs it starts one, m3-server, which is for all
 * programs of this user and ends a minute after its last client; a failure is explained on stderr.
 * A client of a Cricket server has the server's broker and starts none.
 */
M3_API int m3_boot(m3_client **client);
M3_API void m3_disconnect(m3_client *client);

/*
 * Send a label and a device to the broker, for its list of clients. A second call: M3_EDUPLICATE.
 */
M3_API int m3_register(m3_client *client, const m3_process_info *info);
M3_API int m3_deregister(m3_client *client);

/* The size that m3_alloc makes of @bytes on @device, 0 counting as 1; @granularity may be NULL. */
M3_API int m3_rounded_size(m3_client *client, int device, uint64_t bytes, unsigned int flags,
			   uint64_t *rounded, uint64_t *granularity);

/*
 * Attach to the region of that name, or create it, in one step; and map it on its device unless
 * M3_NO_MAP. The same name with another size or device is M3_EMISMATCH. Of a region with
 * M3_ATTACH_ONLY, bytes may be 0.
 */
M3_API int m3_alloc(m3_client *client, const m3_alloc_req *req, m3_region **region);

/* Attach only. Nothing is mapped. */
M3_API int m3_open(m3_client *client, const char *mem_id, int access, m3_region **region);
M3_API int m3_open_id(m3_client *client, m3_rid rid, int access, m3_region **region);

M3_API m3_rid m3_region_id(const m3_region *region);
M3_API uint64_t m3_region_size(const m3_region *region);
/* The device of part @stripe. -1: this process does not see it; M3_EINVAL: no such part. */
M3_API int m3_region_device(const m3_region *region, unsigned int stripe);
M3_API m3_device_ptr m3_region_ptr(const m3_region *region); /* 0: not mapped */

/*
 * Map for @device (M3_ANY_DEVICE: the memory's own); all devices see it at one address, which is
 * @hint where that is free, or any for 0. Maps nest; the last m3_unmap of the last device gives up
 * the address, after the work of the current context has ended.
 */
M3_API int m3_map(m3_region *region, int device, int access, m3_device_ptr hint,
		  m3_device_ptr *out);
M3_API int m3_unmap(m3_region *region, int device);

/*
 * Change the access of devices (bit i: device i) to a mapped region. M3_ENOPEER is returned before
 * any change.
 */
M3_API int m3_set_access(m3_region *region, uint64_t devices, int access);

/*
 * One more reference, or one less. The last m3_release unmaps and frees the object; NULL is
 * nothing.
 */
M3_API int m3_retain(m3_region *region);
M3_API int m3_release(m3_region *region);

/* The name goes now, the memory with its last user. Of the owner. */
M3_API int m3_unlink(m3_client *client, const char *mem_id);

/*
 * From now on, the region cannot be opened or mapped for writing. Existing mappings for writing
 * must be removed first: M3_EBUSY.
 */
M3_API int m3_seal(m3_region *region);

/*
 * One writer, or many readers, among those who ask; a lease ends with the connection at the latest.
 */
M3_API int m3_lease(m3_region *region, int kind, unsigned int timeout_ms);
M3_API int m3_unlease(m3_region *region);

M3_API int m3_stat(m3_region *region, m3_info *info);
/*
 * Calls @each for what the caller may open and whose name begins with @prefix; stops when it
 * returns non-zero.
 */
M3_API int m3_list(m3_client *client, const char *prefix, int (*each)(const m3_info *, void *),
		   void *data);

/* Set who may open it from now on; clients that have it keep it. For the owner. */
M3_API int m3_chmod(m3_region *region, unsigned int mode);
M3_API int m3_grant(m3_region *region, const char *principal, int access);
M3_API int m3_revoke(m3_region *region, const char *principal);

/* @principal NULL: the caller's own. 0 is no limit. Setting is for the broker's user and root. */
M3_API int m3_quota_get(m3_client *client, const char *principal, uint64_t *bytes,
			uint64_t *regions, uint64_t *bytes_used, uint64_t *regions_used);
M3_API int m3_quota_set(m3_client *client, const char *principal, uint64_t bytes, uint64_t regions);

M3_API int m3_topology(m3_client *client, m3_topo *topo);

/*
 * Order between processes: the event (a CUevent made with CU_EVENT_INTERPROCESS and
 * CU_EVENT_DISABLE_TIMING) of the one that has written is left with the region; the stream (a
 * CUstream) of another waits for it.
 */
M3_API int m3_event_export(m3_region *region, void *event);
M3_API int m3_event_wait(m3_region *region, void *stream);

/*
 * Bytes by way of the broker: for programs without CUDA, and devices that do not reach each other.
 */
M3_API int m3_read(m3_region *region, uint64_t offset, void *data, size_t size);
M3_API int m3_write(m3_region *region, uint64_t offset, const void *data, size_t size);
M3_API int m3_fill(m3_region *region, uint64_t offset, unsigned char value, uint64_t size);
M3_API int m3_copy(m3_region *to, uint64_t to_offset, m3_region *from, uint64_t from_offset,
		   uint64_t size);

/*
 * The library calls @notify in a thread of its own until the client disconnects; @notify itself
 * must not disconnect. M3_ON_BROKER_LOST is the last event; the program may then subscribe again.
 */
M3_API int m3_subscribe(m3_client *client, unsigned int mask,
			void (*notify)(unsigned int event, m3_rid rid, void *data), void *data);

/* Sends @bytes to the broker and back, 4096 at most: is it alive? */
M3_API int m3_echo(m3_client *client, const void *bytes, size_t size, void *back);
/* End the broker. For its own user and root. */
M3_API int m3_halt(m3_client *client);

M3_API const char *m3_strerror(int status);
M3_API const char *m3_version(void);
/* The numbers of the first M3: 1 ACK, 2 NYI, 3 SOCKERR, 4 DUPLICATE_REGISTER, 5 UNKNOWN_ERR. */
M3_API int m3_legacy_status(int status);

#ifdef __cplusplus
}
#endif
#endif
