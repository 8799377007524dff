"""The few driver calls that running a kernel takes, on whatever library of that interface is given."""
import ctypes
import time

JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES = 5, 6
COMPUTE_MAJOR, COMPUTE_MINOR = 75, 76
NOT_READY = 600


PATIENCE = 120  # seconds for one kernel


class DriverError(Exception):
    pass


class Stuck(Exception):
    """A kernel that does not end."""


class ArrayDesc(ctypes.Structure):
    _fields_ = [('size', ctypes.c_size_t * 3), ('format', ctypes.c_int), ('channels', ctypes.c_uint),
                ('flags', ctypes.c_uint)]


class Side(ctypes.Structure):
    _fields_ = [('at', ctypes.c_size_t * 4), ('kind', ctypes.c_int), ('host', ctypes.c_void_p), ('device', ctypes.c_uint64),
                ('array', ctypes.c_void_p), ('reserved', ctypes.c_void_p), ('pitch', ctypes.c_size_t),
                ('height', ctypes.c_size_t)]


class Copy(ctypes.Structure):
    _fields_ = [('source', Side), ('dest', Side), ('extent', ctypes.c_size_t * 3)]


class Resource(ctypes.Structure):
    _fields_ = [('kind', ctypes.c_int), ('array', ctypes.c_void_p), ('rest', ctypes.c_int * 30), ('flags', ctypes.c_uint)]


class Sampler(ctypes.Structure):
    _fields_ = [('address', ctypes.c_int * 3), ('filter', ctypes.c_int), ('flags', ctypes.c_uint), ('rest', ctypes.c_int * 5),
                ('border', ctypes.c_float * 4), ('reserved', ctypes.c_int * 12)]


class Driver:
    """A context on device 0."""

    def __init__(self, library):
        self.cu = ctypes.CDLL(library)
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self('cuInit', 0)
        self('cuDeviceGet', ctypes.byref(device), 0)
        self('cuDevicePrimaryCtxRetain', ctypes.byref(self.context), device)
        self('cuCtxSetCurrent', self.context)
        self.device = device

    def reset(self):
        """After a fault: everything is lost, and the device can be used again."""
        self.cu.cuDevicePrimaryCtxReset_v2(self.device)
        self('cuDevicePrimaryCtxRetain', ctypes.byref(self.context), self.device)
        self('cuCtxSetCurrent', self.context)

    def __call__(self, name, *args):
        result = getattr(self.cu, name)(*args)
        if result:
            raise DriverError(f'{name}: error {result}')

    def name(self):
        text, major, minor = ctypes.create_string_buffer(100), ctypes.c_int(), ctypes.c_int()
        self('cuDeviceGetName', text, 100, self.device)
        self('cuDeviceGetAttribute', ctypes.byref(major), COMPUTE_MAJOR, self.device)
        self('cuDeviceGetAttribute', ctypes.byref(minor), COMPUTE_MINOR, self.device)
        return text.value.decode(), f'sm_{major.value}{minor.value}'

    def memory(self, size):
        at = ctypes.c_uint64()
        self('cuMemAlloc_v2', ctypes.byref(at), ctypes.c_size_t(size))
        return at

    def put(self, at, data):
        self('cuMemcpyHtoD_v2', at, data, ctypes.c_size_t(len(data)))

    def get(self, at, size):
        data = ctypes.create_string_buffer(size)
        self('cuMemcpyDtoH_v2', data, at, ctypes.c_size_t(size))
        return data.raw

    def zero(self, at, size):
        self('cuMemsetD8_v2', at, ctypes.c_ubyte(0), ctypes.c_size_t(size))

    def load(self, text):
        """A module, or DriverError with what the compiler says."""
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(2000)
        keys = (ctypes.c_int * 2)(JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        try:
            self('cuModuleLoadDataEx', ctypes.byref(module), text.encode() + b'\0', 2, keys, values)
        except DriverError as error:
            said = ' '.join(log.value.decode(errors='replace').split())
            raise DriverError(f'{error} {said}'[:400])
        return module

    def unload(self, module):
        self('cuModuleUnload', module)

    def launch(self, module, kernel, block, *addresses, grid=(1, 1, 1)):
        """Run it to its end; @block and @grid in three dimensions, or threads of one block."""
        block = (block, 1, 1) if isinstance(block, int) else block
        function = ctypes.c_void_p()
        self('cuModuleGetFunction', ctypes.byref(function), module, kernel.encode())
        values = [ctypes.c_uint64(getattr(a, 'value', a)) for a in addresses]
        params = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        self('cuLaunchKernel', function, *grid, *block, 0, None, params, None)
        deadline = time.time() + PATIENCE
        while self.cu.cuStreamQuery(None) == NOT_READY:
            if time.time() > deadline:
                raise Stuck(kernel)
        self('cuCtxSynchronize')

    def array(self, texture):
        """A CUDA array with the texture's texels."""
        desc = ArrayDesc((ctypes.c_size_t * 3)(*texture.size), texture.format, texture.channels, texture.array_flags)
        array, data = ctypes.c_void_p(), texture.texels()
        self('cuArray3DCreate_v2', ctypes.byref(array), ctypes.byref(desc))
        row = texture.size[0] * texture.texel_bytes
        height, depth = max(texture.size[1], 1), max(texture.size[2], 1)
        copy = Copy(extent=(ctypes.c_size_t * 3)(row, height, depth))
        text = ctypes.create_string_buffer(data, len(data))
        copy.source = Side(kind=1, host=ctypes.addressof(text), pitch=row, height=height)
        copy.dest = Side(kind=3, array=array)
        self('cuMemcpy3D_v2', ctypes.byref(copy))
        return array

    def texture(self, texture):
        """A texture or surface object, and what frees it."""
        array, made = self.array(texture), ctypes.c_uint64()
        resource = Resource(kind=0, array=array)
        if texture.surface:
            self('cuSurfObjectCreate', ctypes.byref(made), ctypes.byref(resource))
        else:
            sampler = Sampler(address=(ctypes.c_int * 3)(*[texture.address] * 3), filter=texture.filter, flags=texture.flags,
                              border=(ctypes.c_float * 4)(0.25, 0.5, 0.75, 1))
            self('cuTexObjectCreate', ctypes.byref(made), ctypes.byref(resource), ctypes.byref(sampler), None)

        def free():
            self('cuSurfObjectDestroy' if texture.surface else 'cuTexObjectDestroy', made)
            self('cuArrayDestroy', array)
        return made, free
