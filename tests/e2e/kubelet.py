"""tests/e2e/kubelet.py - the kubelet's side of the device plugin API, for test_device_plugin.py."""
import sys
import threading
from concurrent import futures

import grpc

from conftest import ROOT

sys.path.insert(0, str(ROOT / "kubernetes"))
import messages     # noqa: E402


def _method(function, request):
    return grpc.unary_unary_rpc_method_handler(lambda r, _: function(r), request_deserializer=messages.parse(request),
                                               response_serializer=messages.serialize)


class Kubelet(grpc.GenericRpcHandler):
    """Registers plugins, watches the devices of the newest one, and knows which devices are in use."""

    def __init__(self, folder):
        self.plugins, self.pods = folder / "device-plugins", folder / "pod-resources"
        for made in (self.plugins, self.pods):
            made.mkdir(parents=True, exist_ok=True)
        self.devices, self.in_use, self.registered = {}, [], []
        self.channel = None
        self.methods = {"/v1beta1.Registration/Register": _method(self._register, "RegisterRequest"),
                        "/v1.PodResourcesLister/List": _method(self._list, "Empty")}
        self.start()

    def start(self):
        """As a kubelet that starts: it removes the sockets of plugins."""
        for path in self.plugins.iterdir():
            path.unlink()
        self.grpc = grpc.server(futures.ThreadPoolExecutor(4), handlers=[self])
        for folder in (self.plugins, self.pods):
            self.grpc.add_insecure_port(f"unix:{folder}/kubelet.sock")
        self.grpc.start()

    def stop(self):
        if self.channel:
            self.channel.close()
        self.grpc.stop(None).wait()

    def service(self, handler_call_details):
        return self.methods.get(handler_call_details.method)

    def _register(self, request):
        self.registered.append(request)
        self.channel = grpc.insecure_channel(f"unix:{self.plugins}/{request.endpoint}")
        threading.Thread(target=self._watch, args=[self.channel], daemon=True).start()
        return messages.new("Empty")

    def _watch(self, channel):
        watch = channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch", request_serializer=messages.serialize,
                                     response_deserializer=messages.parse("ListAndWatchResponse"))
        try:
            for answer in watch(messages.new("Empty"), wait_for_ready=True):
                self.devices = {d.ID: d.health for d in answer.devices}
        except (grpc.RpcError, ValueError):     # the plugin is gone, or the channel
            self.devices = {}

    def _list(self, _request):
        devices = messages.new("ContainerDevices", resource_name="cricket/gpu", device_ids=self.in_use)
        container = messages.new("ContainerResources", name="c", devices=[devices])
        return messages.new("ListPodResourcesResponse", pod_resources=[messages.new("PodResources", name="p", containers=[container])])

    def healthy(self):
        return sorted(name for name, health in dict(self.devices).items() if health == "Healthy")

    def allocate(self, *names):
        """The container's variables, and its mounts as {path in the container: path of the host}. RpcError: the plugin refuses."""
        call = self.channel.unary_unary("/v1beta1.DevicePlugin/Allocate", request_serializer=messages.serialize,
                                        response_deserializer=messages.parse("AllocateResponse"))
        wanted = messages.new("ContainerAllocateRequest", devices_ids=names)
        answer, = call(messages.new("AllocateRequest", container_requests=[wanted]), timeout=60).container_responses
        assert all(mount.read_only for mount in answer.mounts)
        return dict(answer.envs), {mount.container_path: mount.host_path for mount in answer.mounts}
