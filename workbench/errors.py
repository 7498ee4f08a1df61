"""Every error a user can cause, under one base: what was given, what is accepted, what to do next."""


class WorkbenchError(Exception):
    """Base of all errors that the workbench raises on purpose."""


class ProblemError(WorkbenchError, ValueError):
    """A problem description contradicts itself or asks for something undefined."""


class TensorError(WorkbenchError, ValueError):
    """A tensor's shape, dtype, stride, device or content does not fit the call."""


class SpecError(WorkbenchError, ValueError):
    """A kernel spec combines geometry or levers in a way that no kernel can be built for."""


class UnsupportedError(WorkbenchError):
    """The request is well formed but this kernel, target or lane does not serve it."""


class BackendUnavailable(WorkbenchError, RuntimeError):
    """The backend that was asked for cannot run in this process or on this machine."""


class ScenarioError(WorkbenchError, ValueError):
    """A scenario file or name is unknown or malformed."""


class DeviceError(WorkbenchError, ValueError):
    """A device description is unknown or malformed."""


class ParameterError(WorkbenchError, ValueError):
    """A notebook or command parameter is unknown or has the wrong type."""


class ReportError(WorkbenchError):
    """A report could not be written or read."""


class RecordError(WorkbenchError, ValueError):
    """A record contradicts itself, or a record file is malformed."""


class CompileError(WorkbenchError):
    """Triton could not build a kernel for the target."""


class AssemblyError(WorkbenchError, ValueError):
    """A machine-code file is unknown, truncated or malformed."""


class TargetError(WorkbenchError, ValueError):
    """A compilation target is unknown."""


class TritonVersionError(WorkbenchError, RuntimeError):
    """A Triton version is not available on this machine."""


class GoldenError(WorkbenchError):
    """A golden file is missing or malformed, or the machine code differs from it."""


class EmulationError(WorkbenchError, RuntimeError):
    """The emulator met an instruction it does not model, or the code did what no launch may do."""


class ProfileError(WorkbenchError, ValueError):
    """A profiler's file is of no known kind, truncated or empty, or a figure of it cannot be derived as asked."""


class TuneError(WorkbenchError, ValueError):
    """A tuning space or a table of tuned specs is unknown, malformed, or would be overwritten."""


class ProfilerUnavailable(WorkbenchError, RuntimeError):
    """The profiler that was asked for gave no profile; one of the four below says why."""


class ProfilerMissing(ProfilerUnavailable):
    """The profiler lies in none of the places that were searched."""


class ProfilerForbidden(ProfilerUnavailable):
    """The profiler may not be executed, or may not read the GPU's counters."""


class ProfilerTimeout(ProfilerUnavailable):
    """The profiler did not end in the time that it was given, and was stopped."""


class ProfilerFailed(ProfilerUnavailable):
    """The profiler was there and ran, but ended with an error or without a profile that can be read."""


class ModelError(WorkbenchError, ValueError):
    """A model was asked for what it cannot say, or given values that contradict each other."""


class OrderError(ModelError):
    """A work order does not meet every item of the problem exactly once."""
