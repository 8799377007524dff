/*
 * server/life/migration_part.h - a session on its way, for the files travel*.c only.
 */
#ifndef CK_SERVER_LIFE_MIGRATION_PART_H
#define CK_SERVER_LIFE_MIGRATION_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "server/control/control.h"
#include "server/door/absent_sessions.h"
#include "server/life/migration.h"
#include "server/processes/messages.h"

struct travel {
	struct travel *next;
	enum step {
		ROUNDS,	    /* its memory is sent while it runs */
		SUSPENDING, /* its GPU state moves into the worker */
		LEAVING,    /* the worker closes its connections */
		WRITING,    /* a checkpointer writes it */
		ENDING,	    /* it is elsewhere: its worker here ends */
		STAYING,    /* it is in files, and is on its way back to the GPU */
		READING,    /* a restorer makes it again */
		DESCRIBING, /* another server is to send one */
		LOADING,    /* the memory of a copy is read */
		RETURNING,  /* the worker names its session again */
		REMOVING,   /* it has ended, and its checkpoint has no purpose */
		OVER,
	} step;
	struct cks_asker asker;
	json_t *reply;	      /* for the asker, when it has ended here, or runs again */
	bool keeps;	      /* it stays */
	bool by_time;	      /* no command waits, and whatever is in the folder is replaced */
	unsigned int again_s; /* until it is to be written again */
	int pool;	      /* the file of memory that the worker has dropped; -1: none */
	int64_t began;	      /* when its program had to wait, in ms; and for how long */
	unsigned int pause_ms;
	bool stays;    /* it has been saved as far as it must wait for that */
	bool needless; /* it has come to its end meanwhile */
	int64_t again; /* while REMOVING: when to try again, in ms; 0: at once; while STAYING: when
			  the answer waits no longer; while ROUNDS: when a round is late */
	bool resumes;  /* if it stays: it was not suspended before */
	bool rests;    /* a restored one stays suspended, */
	bool held;     /* until a command resumes it: also one that stays here */
	bool copy;     /* a restored one gets names of its own: */
	struct cks_session_names names;
	bool shares;		      /* its memory comes with that of others: */
	struct travel_memory *memory; /* NULL: out of memory */
	int stream;		      /* to the server that it moves to; -1: into files */
	/* the worker keeps its device memory in a file, with which that leaves and comes back */
	bool pooled;
	json_int_t format;  /* of the exchange with the other server */
	bool live;	    /* a checkpointer runs from the first round on */
	unsigned int round; /* struct cks_session_info.rounds, when one was begun */
	bool rounds_over;   /* the session is to leave */
	char *folder;	    /* in which files are written; NULL: the checkpointer has not begun */
	bool filed;	    /* the worker has to drop memory that is in a file there */
	unsigned int recoveries; /* from checkpointers that were killed */
	unsigned int number;	 /* of the session */
	unsigned char session[16];
	char address[CK_ABSENT_ADDRESS]; /* where it will be; empty: that is not known */
	char directory[];		 /* of the checkpoint; empty: there is none */
};

struct cks_travels {
	struct travel *first;
	struct travel_memory *memories;
	int64_t due; /* cks_travels_due */
	json_t *gpu; /* of this server, when the last session began to come; NULL: none has */
};

/* NULL: out of memory. */
struct travel *travel_begin(struct cks_travels *travels, enum step step, const char *directory,
			    struct cks_asker asker);
/* Answer the command, with @reply, which it takes; cks_travels_run() frees @travel. */
void travel_finish(struct cks_server *server, struct travel *travel, json_t *reply);
/* The folder in @request, or NULL and *error. It must be absolute, because the client has another
 * current folder. */
const char *travel_directory(const json_t *request, json_t **error);

/* A hash of @session, an id: the same on each server that has it, and does not tell the id. */
#define CK_TRAVEL_DIGITS 17
void travel_digits(const unsigned char session[16], char digits[CK_TRAVEL_DIGITS]);

/* Seconds for which the server knows a session that is elsewhere. */
uint64_t travel_seconds(const struct cks_server *server);

/* migration.c: have @session leave the GPU. NULL: it is on its way; else why not. */
json_t *travel_suspend(struct cks_server *server, struct travel *travel,
		       struct cks_session_info *session);

/* migration_rounds.c: begin the step ROUNDS, if there is a process for it, with what the receiver
 * says of @lanes (lanes.h), or NULL; a round; whether that is
 * done. */
bool travel_begin_rounds(struct cks_server *server, struct travel *travel,
			 struct cks_session_info *session, json_t *lanes);
void travel_ask_round(struct cks_server *server, struct travel *travel);
void travel_check_round(struct cks_server *server, struct travel *travel);

/* migration_write.c: the news and the reply of a checkpointer, whose @travel is; */
void travel_news(struct cks_server *server, const json_t *line, void *travel);
void travel_written(struct cks_server *server, json_t *reply, void *travel);
/* begin the step WRITING of @session; and: it stays here, and its client may come back. */
void travel_write(struct cks_server *server, struct travel *travel,
		  struct cks_session_info *session);
void travel_stay(struct cks_server *server, const struct travel *travel);

/* migration_policy.c: the step REMOVING: remove the folder of a checkpoint, if there is one */
void travel_remove(struct cks_server *server, struct travel *travel);

/* migration_copies.c: @travel, of a copy, waits for the memory of its checkpoint, whose manifest
 * has @hash, or no longer. Why it does not get it; NULL: it does, or needs none. Whether that is
 * there, in *@file, or is not needed. */
void travel_share_memory(struct cks_server *server, struct travel *travel, const char *hash);
void travel_leave_memory(struct cks_server *server, struct travel *travel);
void travel_free_memories(struct cks_travels *travels);
json_t *travel_memory_error(const struct travel *travel);
bool travel_memory_read(const struct travel *travel, int *file);

/* migration_restore.c: the steps LOADING and RETURNING */
void travel_check_memory(struct cks_server *server, struct travel *travel);
void travel_check_named(struct cks_server *server, struct travel *travel);

#endif
