"""As much of libcuda as it takes to time a copy."""

import ctypes
import os

LAUNCH_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING


class Driver:
    """GPU 0 and its primary context. Raises OSError without libcuda."""

    def __init__(self):
        folder = os.environ.get("MESHC_CUDA_LIBRARIES")
        name = "libcuda.so.1"
        self.library = ctypes.CDLL(f"{folder}/{name}" if folder else name)
        self.call("cuInit", 0)
        self.device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.device)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} returns {code}")

    def name(self):
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, 256, self.device)
        return text.value.decode()

    def is_emulated(self):
        return self.name().startswith("meshc emulated GPU")

    def copy_rate(self, size, copies):
        """Bytes read and written per second, best of five: the driver's own copy."""
        blocks = [ctypes.c_uint64(), ctypes.c_uint64()]
        events = [ctypes.c_void_p(), ctypes.c_void_p()]
        stream = ctypes.c_void_p()
        for block in blocks:
            self.call("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(size))
        for event in events:
            self.call("cuEventCreate", ctypes.byref(event), 0)
        self.call("cuStreamCreate", ctypes.byref(stream), LAUNCH_NON_BLOCKING)
        best = 0.0
        for _ in range(5):
            self.call("cuEventRecord", events[0], stream)
            for _ in range(copies):
                self.call("cuMemcpyDtoDAsync_v2", blocks[0], blocks[1], ctypes.c_size_t(size),
                          stream)
            self.call("cuEventRecord", events[1], stream)
            self.call("cuStreamSynchronize", stream)
            milliseconds = ctypes.c_float()
            self.call("cuEventElapsedTime", ctypes.byref(milliseconds), *events)
            best = max(best, 2 * size * copies / (milliseconds.value / 1000))
        for block in blocks:
            self.call("cuMemFree_v2", block)
        return best
