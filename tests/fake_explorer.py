"""Stand-ins for the explorer's compiler and for its process for slow figures."""

import threading

from machine_code import FILES

from workbench.compiler import CompiledKernel
from workbench.compiler.figures import amd_figures
from workbench.gfx950.asm import read_assembly

CODE = FILES / "handwritten.s"


class FakeCompiler:
    """Hands out stored machine code, with LDS that tells the requests apart; `hold` keeps a number of calls back."""

    def __init__(self):
        self.requests = []
        self.started = []
        self.loaded = []
        self.hold = threading.Event()
        self.hold.set()

    def start(self, triton, target):
        self.started.append(target)

    def load(self, request):
        self.loaded.append(request)

    def compile(self, requests, *, gives_way=False):
        self.requests += requests
        if not gives_way:
            self.hold.wait(10)
        return [self.kernel(request) for request in requests]

    def kernel(self, request):
        text = CODE.read_text()
        return CompiledKernel(
            name=read_assembly(CODE).kernel().name,
            target=request.target,
            triton_version=request.triton_version,
            key="",
            ttir="",
            ttgir="",
            llir="",
            assembly=text,
            binary=b"",
            metadata={"num_warps": 8, "shared": 1024 * dict(request.constexprs).get("K_PAD", 8)},
            arguments=(),
            registers=amd_figures(text),
            compile_seconds=0.0,
        )


class FakeSlow:
    """Keeps jobs until a test answers them."""

    def __init__(self):
        self.jobs = {}

    def submit(self, owner, name, arguments, done):
        self.jobs[owner] = (name, arguments, done)

    def cancel(self, owner):
        self.jobs.pop(owner, None)

    def close(self):
        self.jobs.clear()
