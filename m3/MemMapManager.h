/*
 * MemMapManager.h - the C++ names of the first M3, over m3.h. Header only; link with libm3.
 *
 * Instance() starts a broker (m3-server) for this user if none runs; a failure is explained on
 * stderr. The broker outlives the program: memory stays as long as any program has it, and the
 * broker ends a minute after its last client.
 *
 * The differences: Instance() returns at once (the first M3 ran its server in it until it was told
 * to halt); a client that dies delays no other; a name with another size is refused and not
 * replaced; nothing panics.
 */
#ifndef MEMMAPMANAGER_H
#define MEMMAPMANAGER_H

#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "m3.h"

#define MAX_MEMID_LEN 256

/* An address in the first M3: a descriptor then, a region's number now. */
typedef uint64_t shareable_handle_t;
typedef unsigned long long m3_legacy_device_ptr;

enum MemMapCmd {
	CMD_INVALID = 0,
	CMD_ECHO,
	CMD_HALT,
	CMD_REGISTER,
	CMD_DEREGISTER,
	CMD_ALLOCATE,
	CMD_DEALLOCATE,
	CMD_IMPORT,
	CMD_GETROUNDEDALLOCATIONSIZE,
};

enum MemMapStatusCode {
	STATUSCODE_INVALID = 0,
	STATUSCODE_ACK,
	STATUSCODE_NYI,
	STATUSCODE_SOCKERR,
	STATUSCODE_DUPLICATE_REGISTER,
	STATUSCODE_UNKNOWN_ERR,
};

enum M3InternalErrorType {
	M3INTERNAL_INVALIDCODE = 0,
	M3INTERNAL_NYI,
	M3INTERNAL_OK,
	M3INTERNAL_DUPLICATE_REGISTER,
	M3INTERNAL_ENTRY_NOT_FOUND,
};

class ProcessInfo
{
      public:
	pid_t pid;
	int device_ordinal;
	int device; /* a CUdevice */
	void *ctx;  /* a CUcontext, of this process */

	ProcessInfo() : pid(getpid()), device_ordinal(0), device(0), ctx(nullptr)
	{
	}

	/* The context is kept as it is; @on is its device, which the first M3 asked CUDA for. */
	void SetContext(void *context, int on = 0)
	{
		ctx = context;
		device = device_ordinal = on;
	}
	std::string AddressString() const
	{
		return "pid_" + std::to_string(pid);
	}
	std::string DebugString() const
	{
		return "ProcessInfo pid " + std::to_string(pid) + " device " +
		       std::to_string(device_ordinal);
	}
	bool operator==(const ProcessInfo &other) const
	{
		return pid == other.pid;
	}
};

struct MemoryRegion {
	ProcessInfo pInfo;
	m3_legacy_device_ptr d_ptr = 0;
	shareable_handle_t shareableHandle = 0;
	size_t size = 0;
	char memId[MAX_MEMID_LEN] = "";
};

struct MemMapRequest {
	MemMapCmd cmd = CMD_INVALID;
	ProcessInfo src;
	shareable_handle_t shareableHandle = 0;
	char memId[MAX_MEMID_LEN] = "";
	size_t size = 0;
	size_t alignment = 0;
	ProcessInfo importSrc;
};

struct MemMapResponse {
	MemMapStatusCode status = STATUSCODE_INVALID;
	ProcessInfo dst;
	shareable_handle_t shareableHandle = 0;
	char memId[MAX_MEMID_LEN] = "";
	size_t roundedSize = 0;
	m3_legacy_device_ptr d_ptr = 0;
	uint32_t numShareableHandles = 0;
	int m3 = M3_OK; /* m3.h's error, which is more precise than the status */
};

class MemMapManager
{
      public:
	static MemMapManager *Instance()
	{
		static MemMapManager manager;
		return &manager;
	}
	static const char *Name()
	{
		return "MemMapManager";
	}
	static const char *EndPoint()
	{
		return "MemMapManager_Server_EndPoint";
	}
	std::string DebugString() const
	{
		return std::string(Name()) + (client_ ? " connected" : " without a broker");
	}
	void *ctx() const
	{
		return nullptr;
	} /* a broker has none */

	/* sock_fd is the result of ipcOpenAndBindSocket; the connection is the manager's own. */
	static MemMapResponse RequestRegister(ProcessInfo &pInfo, int sock_fd)
	{
		MemMapRequest request;

		request.cmd = CMD_REGISTER;
		request.src = pInfo;
		return Request(sock_fd, request, nullptr);
	}
	static MemMapResponse RequestDeRegister(ProcessInfo &pInfo, int sock_fd)
	{
		MemMapRequest request;

		request.cmd = CMD_DEREGISTER;
		request.src = pInfo;
		return Request(sock_fd, request, nullptr);
	}
	static MemMapResponse RequestRoundedAllocationSize(ProcessInfo &pInfo, int sock_fd,
							   size_t num_bytes)
	{
		MemMapRequest request;

		request.cmd = CMD_GETROUNDEDALLOCATIONSIZE;
		request.src = pInfo;
		request.size = num_bytes;
		return Request(sock_fd, request, nullptr);
	}
	/* memId NULL or "": private memory, which other clients cannot open. */
	static MemMapResponse RequestAllocate(ProcessInfo &pInfo, int sock_fd, const char *memId,
					      size_t alignment, size_t num_bytes)
	{
		MemMapRequest request;
		MemMapResponse response;

		request.cmd = CMD_ALLOCATE;
		request.src = pInfo;
		request.alignment = alignment;
		request.size = num_bytes;
		if (memId && std::strlen(memId) >= sizeof(request.memId)) {
			response.m3 = M3_EINVAL;
			response.status = STATUSCODE_UNKNOWN_ERR;
			return response;
		}
		if (memId)
			std::strcpy(request.memId, memId);
		return Request(sock_fd, request, nullptr);
	}
	/* Gives up one allocation; the name goes with its last user. */
	static MemMapResponse RequestDeAllocate(ProcessInfo &pInfo, int sock_fd,
						shareable_handle_t handle)
	{
		MemMapRequest request;

		request.cmd = CMD_DEALLOCATE;
		request.src = pInfo;
		request.shareableHandle = handle;
		return Request(sock_fd, request, nullptr);
	}
	static MemMapResponse Request(int sock_fd, MemMapRequest request, sockaddr_un *address)
	{
		MemMapManager *self = Instance();
		MemMapResponse response;

		(void)sock_fd;
		(void)address;
		response.dst = request.src;
		std::memcpy(response.memId, request.memId, sizeof(response.memId));
		response.m3 = self->Serve(request, response);
		response.status = (MemMapStatusCode)m3_legacy_status(response.m3);
		return response;
	}

	m3_client *client()
	{
		return client_;
	}

      private:
	MemMapManager()
	{
		connected_ = m3_boot(&client_);
	}
	~MemMapManager()
	{
		for (auto &entry : regions_)
			while (entry.second.count-- > 0)
				m3_release(entry.second.region);
		m3_disconnect(client_);
	}
	MemMapManager(const MemMapManager &) = delete;
	MemMapManager &operator=(const MemMapManager &) = delete;

	int Serve(const MemMapRequest &q, MemMapResponse &a)
	{
		std::lock_guard<std::mutex> guard(lock_);
		m3_process_info info = {};
		char byte = 0;

		if (!client_)
			connected_ = m3_connect(nullptr, &client_);
		if (!client_)
			return connected_;
		switch (q.cmd) {
		case CMD_ECHO:
			return m3_echo(client_, &byte, 1, &byte);
		case CMD_HALT:
			return m3_halt(client_);
		case CMD_REGISTER:
			info.device = q.src.device_ordinal;
			std::snprintf(info.label, sizeof(info.label), "%s",
				      q.src.AddressString().c_str());
			return m3_register(client_, &info);
		case CMD_DEREGISTER:
			return m3_deregister(client_);
		case CMD_GETROUNDEDALLOCATIONSIZE:
			return Round(q, a);
		case CMD_ALLOCATE:
			return Allocate(q, a);
		case CMD_DEALLOCATE:
			return DeAllocate(q.shareableHandle);
		case CMD_IMPORT:
			return M3_ENOTSUP;
		default:
			return M3_EINVAL;
		}
	}
	int Round(const MemMapRequest &q, MemMapResponse &a)
	{
		uint64_t rounded = 0;
		int status = m3_rounded_size(client_, q.src.device_ordinal, q.size, 0, &rounded,
					     nullptr);

		a.roundedSize = rounded;
		return status;
	}
	int Allocate(const MemMapRequest &q, MemMapResponse &a)
	{
		m3_alloc_req req = {};
		m3_region *region = nullptr;
		int status;

		req.mem_id = q.memId[0] ? q.memId : nullptr;
		req.bytes = q.size;
		req.alignment = q.alignment;
		req.device = q.src.device_ordinal;
		status = m3_alloc(client_, &req, &region);
		if (status != M3_OK)
			return status;
		region = Remember(region);
		a.shareableHandle = m3_region_id(region);
		a.roundedSize = m3_region_size(region);
		a.d_ptr = m3_region_ptr(region);
		a.numShareableHandles = 1;
		return M3_OK;
	}
	/* The region to use: as before, a process that asks twice for a name gets one address. */
	m3_region *Remember(m3_region *region)
	{
		Entry &entry = regions_[m3_region_id(region)];

		if (entry.count++ == 0) {
			entry.region = region;
			return region;
		}
		m3_release(region);
		m3_retain(entry.region);
		return entry.region;
	}
	int DeAllocate(shareable_handle_t handle)
	{
		auto found = regions_.find(handle);
		m3_region *region;

		if (found == regions_.end())
			return M3_ENOENT;
		region = found->second.region;
		if (--found->second.count == 0)
			regions_.erase(found);
		return m3_release(region);
	}

	struct Entry {
		m3_region *region = nullptr;
		int count = 0;
	};
	std::mutex lock_;
	std::map<shareable_handle_t, Entry> regions_;
	m3_client *client_ = nullptr;
	int connected_ = M3_EIO;
};

using MemMapManger = MemMapManager; /* as the first README spells it once */

/* The first M3's socket calls. A descriptor that stands for the connection; close it when done. */
inline int ipcOpenAndBindSocket(sockaddr_un *address)
{
	(void)address;
	return MemMapManager::Instance()->client() ? dup(STDERR_FILENO) : -1;
}

inline int ipcHaltM3Server(int sock_fd, ProcessInfo pInfo)
{
	MemMapRequest request;

	request.cmd = CMD_HALT;
	request.src = pInfo;
	return MemMapManager::Request(sock_fd, request, nullptr).status == STATUSCODE_ACK ? 0 : -1;
}

#endif
