"""What a GPU does over time, asked of its driver: SM clock, power, memory in use."""
import ctypes
import os
import threading
import time


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Watch:
    """Samples the first visible GPU twenty times a second, until close(). Without a driver there are no samples."""

    INTERVAL_S, SM_CLOCK = 0.05, 1

    def __init__(self):
        self.samples = []  # (time, SM clock in MHz, power in W, bytes in use)
        self.ended = threading.Event()
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
            self.gpu = ctypes.c_void_p()
            index = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
            found = self.nvml.nvmlInit_v2() == 0 and self.nvml.nvmlDeviceGetHandleByIndex_v2(
                int(index) if index.isdigit() else 0, ctypes.byref(self.gpu)) == 0
        except OSError:
            found = False
        self.thread = threading.Thread(target=self._sample, daemon=True)
        if found:
            self.samples.append(self._look())
            self.thread.start()

    def _look(self):
        clock, power, memory = ctypes.c_uint(), ctypes.c_uint(), _Memory()
        self.nvml.nvmlDeviceGetClockInfo(self.gpu, self.SM_CLOCK, ctypes.byref(clock))
        self.nvml.nvmlDeviceGetPowerUsage(self.gpu, ctypes.byref(power))
        self.nvml.nvmlDeviceGetMemoryInfo(self.gpu, ctypes.byref(memory))
        return time.time(), clock.value, power.value / 1e3, memory.used

    def _sample(self):
        while not self.ended.wait(self.INTERVAL_S):
            self.samples.append(self._look())

    def used(self):
        """Bytes in use now; None without a driver."""
        return self._look()[3] if self.samples else None

    def wait_for_memory(self, used):
        """Until no more is in use: what a process held is free some time after its end."""
        for _ in range(100):
            if used is None or self.used() <= used + 2**28:
                return
            time.sleep(0.1)

    def between(self, begin, end):
        """Samples of that time, as lists: clocks, powers, bytes."""
        seen = [each[1:] for each in self.samples if begin <= each[0] <= end]
        return tuple(map(list, zip(*seen))) if seen else ([], [], [])

    def close(self):
        self.ended.set()
        if self.thread.is_alive():
            self.thread.join()
