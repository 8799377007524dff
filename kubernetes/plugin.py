"""kubernetes/plugin.py - the device plugin of a node, to the kubelet: API v1beta1.

The kubelet calls the plugin at a socket of the plugin's own, which the plugin registers at the kubelet's. A kubelet that starts
removes all such sockets, so the plugin makes its socket anew and registers again.
"""
import logging
import os
import threading
from concurrent import futures

import grpc

import messages
from places import CommandError

VERSION = "v1beta1"
SOCKET = "cricket.sock"
TIMEOUT = 10        # seconds for a call of the kubelet
LOG = logging.getLogger("cricket-device-plugin")


def _call(path, method, request, answer):
    """Calls a method of the kubelet at the socket PATH."""
    with grpc.insecure_channel(f"unix:{path}") as channel:
        call = channel.unary_unary(method, request_serializer=messages.serialize, response_deserializer=messages.parse(answer))
        return call(request, timeout=TIMEOUT)


class Devices:
    """The places as devices of the kubelet. Threads of the kubelet's calls wait for a new version of the list."""

    def __init__(self, server, resource, pods):
        self.server, self.resource, self.pods = server, resource, pods
        self.changed = threading.Condition()
        self.version, self.list, self.why = 0, [], None

    def _held(self):
        """The ids that containers of this node hold; none where the kubelet does not tell."""
        try:
            answer = _call(self.pods, "/v1.PodResourcesLister/List", messages.new("Empty"), "ListPodResourcesResponse")
        except grpc.RpcError as error:
            LOG.debug("%s: %s", self.pods, error)
            return set()
        devices = (d for pod in answer.pod_resources for container in pod.containers for d in container.devices)
        return {name for d in devices if d.resource_name == self.resource for name in d.device_ids}

    def update(self):
        """Asks server and kubelet, and wakes the threads if a device has changed."""
        self.server.update()
        names = [f"place-{i}" for i in range(self.server.size())]
        held = self._held()
        # Those in use come first: they are the last to become unhealthy.
        healthy = set(sorted(names, key=lambda name: name not in held)[:self.server.usable(len(held))])
        devices = [(name, "Healthy" if name in healthy else "Unhealthy") for name in names]
        if self.why != self.server.why:
            self.why = self.server.why
            LOG.info("%s: %s", self.server.address, self.why or "it admits sessions")
        with self.changed:
            if devices != self.list:
                LOG.info("%s: %d places, %d of them usable, %d in use", self.resource, len(names), len(healthy), len(held))
                self.version, self.list = self.version + 1, devices
                self.changed.notify_all()

    def wait(self, version, timeout):
        """The version and the list, when the version is another one, or after TIMEOUT seconds."""
        with self.changed:
            self.changed.wait_for(lambda: self.version != version, timeout)
            return self.version, list(self.list)


class Service(grpc.GenericRpcHandler):
    """The methods that the kubelet calls."""

    def __init__(self, devices):
        self.devices = devices
        self.methods = {
            "GetDevicePluginOptions": self._handler(grpc.unary_unary_rpc_method_handler, self._options, "Empty"),
            "ListAndWatch": self._handler(grpc.unary_stream_rpc_method_handler, self._watch, "Empty"),
            "Allocate": self._handler(grpc.unary_unary_rpc_method_handler, self._allocate, "AllocateRequest"),
        }

    @staticmethod
    def _handler(make, function, request):
        return make(function, request_deserializer=messages.parse(request), response_serializer=messages.serialize)

    def service(self, handler_call_details):
        name = handler_call_details.method.rsplit("/", 1)
        return self.methods.get(name[1]) if name[0] == f"/{VERSION}.DevicePlugin" else None

    def _options(self, _request, _context):
        return messages.new("DevicePluginOptions")

    def _watch(self, _request, context):
        """A list at once, and after each change. A list that has not changed keeps nothing: a kubelet that is gone ends the loop."""
        version = None
        while context.is_active():
            known, devices = self.devices.wait(version, 1)
            if known != version:
                version = known
                yield messages.new("ListAndWatchResponse", devices=[messages.new("Device", ID=name, health=health) for name, health in devices])

    def _allocate(self, request, context):
        try:
            answers = [self._container(len(wanted.devices_ids)) for wanted in request.container_requests]
        except CommandError as error:
            LOG.error("a container gets no place: %s", error)
            context.abort(grpc.StatusCode.UNAVAILABLE, f"cricket: {error}")
        return messages.new("AllocateResponse", container_responses=answers)

    def _container(self, count):
        variables, mounts = self.devices.server.edits(count)
        LOG.info("a container gets %d places: GPUs %s of %s", count, variables.get("CUDA_VISIBLE_DEVICES", "all"), self.devices.server.address)
        mounts = [messages.new("Mount", container_path=inside, host_path=host, read_only=True) for inside, host in mounts]
        return messages.new("ContainerAllocateResponse", envs=variables, mounts=mounts)


def _identity(path):
    """What tells a socket from one that is made in its place later; None if there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


class Endpoint:
    """The plugin's socket in the kubelet's folder, and its registration."""

    def __init__(self, folder, devices):
        self.kubelet, self.path = os.path.join(folder, "kubelet.sock"), os.path.join(folder, SOCKET)
        self.devices = devices
        self.grpc = self.registered = None

    def _state(self):
        """The kubelet's socket and the plugin's."""
        return _identity(self.kubelet), _identity(self.path)

    def keep(self):
        """Registers if the kubelet is there and does not know the plugin. A failure is logged, and the next call tries again."""
        if not _identity(self.kubelet) or (self.registered and self.registered == self._state()):
            return
        self.close()
        self.grpc = grpc.server(futures.ThreadPoolExecutor(max_workers=8), handlers=[Service(self.devices)])
        self.grpc.add_insecure_port(f"unix:{self.path}")
        self.grpc.start()
        request = messages.new("RegisterRequest", version=VERSION, endpoint=SOCKET, resource_name=self.devices.resource)
        try:
            _call(self.kubelet, f"/{VERSION}.Registration/Register", request, "Empty")
        except grpc.RpcError as error:
            LOG.warning("the kubelet at %s has not registered the plugin: %s", self.kubelet, error.details())
            return
        self.registered = self._state()
        LOG.info("registered %s at %s", self.devices.resource, self.kubelet)

    def close(self):
        """Removes the socket: the kubelet marks the devices as unhealthy."""
        if self.grpc:
            self.grpc.stop(None).wait()
        self.grpc = self.registered = None
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass
