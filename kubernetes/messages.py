"""kubernetes/messages.py - messages of the kubelet's APIs: device plugins v1beta1, and pod resources v1.

protobuf makes classes of the table below, so that no compiler of .proto files is needed. The table has the fields that the plugin
uses, with the numbers of Kubernetes' public API; a receiver skips others.
"""
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "cricket.kubelet"
# MESSAGE FIELD:NUMBER[:TYPE]...; TYPE is a string if it is left out; `*` behind it: repeated; map: of strings.
TABLE = """
Empty
DevicePluginOptions       pre_start_required:1:bool get_preferred_allocation_available:2:bool
RegisterRequest           version:1 endpoint:2 resource_name:3 options:4:DevicePluginOptions
Device                    ID:1 health:2
ListAndWatchResponse      devices:1:Device*
ContainerAllocateRequest  devices_ids:1:string*
AllocateRequest           container_requests:1:ContainerAllocateRequest*
Mount                     container_path:1 host_path:2 read_only:3:bool
ContainerAllocateResponse envs:1:map mounts:2:Mount*
AllocateResponse          container_responses:1:ContainerAllocateResponse*
ContainerDevices          resource_name:1 device_ids:2:string*
ContainerResources        name:1 devices:2:ContainerDevices*
PodResources              name:1 namespace:2 containers:3:ContainerResources*
ListPodResourcesResponse  pod_resources:1:PodResources*
"""
FIELD = descriptor_pb2.FieldDescriptorProto
SCALARS = {"string": FIELD.TYPE_STRING, "bool": FIELD.TYPE_BOOL}


def _add_field(message, name, number, kind):
    """Adds a field to the description of a message. A map is a repeated message of key and value."""
    repeated = kind.endswith("*") or kind == "map"
    field = message.field.add(name=name, number=int(number), label=FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL)
    kind = kind.rstrip("*")
    if kind == "map":
        entry = message.nested_type.add(name=name.capitalize() + "Entry")
        entry.options.map_entry = True
        _add_field(entry, "key", 1, "string")
        _add_field(entry, "value", 2, "string")
        kind = f"{message.name}.{entry.name}"
    if kind in SCALARS:
        field.type = SCALARS[kind]
    else:
        field.type, field.type_name = FIELD.TYPE_MESSAGE, f".{PACKAGE}.{kind}"


def _describe():
    described = descriptor_pb2.FileDescriptorProto(name="kubelet.proto", package=PACKAGE, syntax="proto3")
    for line in TABLE.strip().splitlines():
        name, *fields = line.split()
        message = described.message_type.add(name=name)
        for field in fields:
            _add_field(message, *(field.split(":") + ["string"])[:3])
    return described


def _make_classes():
    """A class for each message. Releases of protobuf before 4.22 make it by a factory."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_describe())
    make = getattr(message_factory, "GetMessageClass", None) or message_factory.MessageFactory(pool).GetPrototype
    return {line.split()[0]: make(pool.FindMessageTypeByName(f"{PACKAGE}.{line.split()[0]}")) for line in TABLE.strip().splitlines()}


CLASSES = _make_classes()


def new(name, /, **fields):
    """A message of the table."""
    return CLASSES[name](**fields)


def parse(name):
    """A function: bytes to a message of that name."""
    return CLASSES[name].FromString


def serialize(message):
    """A message to bytes."""
    return message.SerializeToString()
