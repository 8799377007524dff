/*
 * m3/lib.h - libm3's files for each other.
 */
#ifndef CK_M3_LIB_H
#define CK_M3_LIB_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "m3/driver.h"
#include "m3/message.h"
#include "m3/shim.h"

struct m3_client {
	pthread_mutex_t lock;	 /* one call at a time; regions' locks are outside of it */
	unsigned int refs;	 /* the user's and its regions' */
	bool closed;		 /* by m3_disconnect */
	int sock;		 /* -1: no connection */
	unsigned int generation; /* of connections: a region belongs to one */
	pid_t pid;
	char path[108]; /* of the broker that answered last */
	bool fixed_path;
	bool has_driver;
	struct ck_m3_driver driver;
	const struct ck_m3_shim *shim; /* the way to the broker, when not NULL */
	struct ck_m3_request hello;
	struct m3_region *regions;
	bool subscribed;
	int event_sock;		   /* of m3_subscribe; -1: none, or it goes through the shim */
	unsigned int event_number; /* there */
	_Atomic bool event_over;   /* the thread has nothing more to wait for */
	pthread_t event_thread;
	void (*notify)(unsigned int event, m3_rid rid, void *data);
	void *notify_data;
	struct ck_m3_question question; /* room, under the lock */
	struct ck_m3_answer answer;
};

struct m3_region {
	struct m3_region *next, **at; /* in the client's list */
	m3_client *client;
	pthread_mutex_t lock;
	unsigned int generation;
	unsigned int refs;
	m3_rid rid;
	uint64_t size, alignment;
	unsigned int access; /* that the broker allows */
	unsigned int stripes;
	int devices[M3_DEVICES_MAX]; /* of the parts, in this process; -1: not seen */
	m3_device_ptr address;	     /* 0: not mapped */
	unsigned int maps[M3_DEVICES_MAX];
	unsigned int map_access[M3_DEVICES_MAX];
	CUevent event; /* opened from the event that was left with it */
	unsigned char event_bytes[M3_EVENT_SIZE];
};

/* Results besides the reply. */
struct ck_m3_back {
	void *data; /* NULL: nothing is wanted */
	size_t room, size;
	int fd; /* -1: none came */
};

/*
 * Ask the broker, connecting anew when it has gone. @region NULL: about none. @data goes with it;
 * @reply and @back may be NULL. m3_status.
 */
int ck_m3_call(m3_client *client, const m3_region *region, struct ck_m3_request *request,
	       const void *data, struct ck_m3_reply *reply, struct ck_m3_back *back);

/* The UUID of @device into a request; M3_ANY_DEVICE is none. M3_EINVAL: there is no such device. */
int ck_m3_name_device(const m3_client *client, int device, struct ck_m3_request *request);

/* A device of the broker's in the numbers of this process, or -1. */
int ck_m3_own_device(const m3_client *client, const unsigned char uuid[16], int broker_device);

void ck_m3_client_put(m3_client *client); /* a reference less */
/* End a subscription, when there is one. */
void ck_m3_news_end(m3_client *client);

/* --- lib_map.c, for the region's other calls; its lock is held */

void ck_m3_unmap_all(m3_region *region);
int ck_m3_read_only(m3_region *region);
bool ck_m3_direct(const m3_region *region, unsigned int access);

/* --- lib_start.c */

/*
 * Start m3-server, from beside this library or as PATH has it, and wait until it serves; 0 also
 * where another process has done so. -errno, explained on stderr.
 */
int ck_m3_start_broker(void);

#endif
