/*
 * cuda/mps.h - NVIDIA MPS, which lets processes share a GPU, and their faults.
 *
 * NVIDIA's control daemon has a folder with its socket. A process that initialises the driver while
 * CUDA_MPS_PIPE_DIRECTORY names this folder uses the daemon, and none if no daemon listens there.
 */
#ifndef CK_CUDA_MPS_H
#define CK_CUDA_MPS_H

#include <stdbool.h>
#include <sys/types.h>

/* NVIDIA's control program, and the beginning of the names of it and its server. */
#define CK_MPS_CONTROL "nvidia-cuda-mps-control"
/* The folders of daemons that a server of Cricket has started are called so. */
#define CK_MPS_FOLDER "cricket-mps-"

/* Does MPS run on this host, as far as /proc shows? Without the daemons of servers of Cricket. */
bool ck_cuda_mps_runs(void);
/* The folder of the daemon of a server of Cricket that this process is to use; NULL: none. */
const char *ck_cuda_mps_folder(void);
/* Does a daemon listen in @folder? It does not notice the question. */
bool ck_cuda_mps_listens(const char *folder);
/* Kill the processes of MPS whose folder is @folder, such as a server that has outlived its
 * daemon. */
void ck_cuda_mps_kill(const char *folder);

#endif
