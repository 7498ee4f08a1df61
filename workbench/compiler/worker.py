"""The compiler process: `python -m workbench.compiler.worker` with the Triton of its import path.

Reads requests from standard input and writes replies to standard output until the input ends. Anything that Triton or
LLVM prints goes to standard error.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource, GluonJITFunction
from triton.runtime.cache import triton_key

from workbench.compiler import protocol
from workbench.compiler.artifact import lay_out_arguments
from workbench.compiler.figures import RegisterFigures, amd_figures, nvidia_figures
from workbench.compiler.request import TENSOR_MAP
from workbench.compiler.targets import Target, find_target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from workbench.compiler.request import Argument, KernelRef, KernelRequest, Value


OPTIONS_OF_LATER_VERSIONS = ("llvm_fn_attrs",)
"""Options that steer the code of newer Tritons; an older one that lacks them compiles without."""


def main() -> None:
    """Serve requests until standard input ends."""
    replies = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    protocol.send(replies, triton.__version__)
    # Triton hashes half a gigabyte of itself before it first compiles; here nobody may be waiting yet.
    triton_key()
    # What is imported stays; looking through it again and again takes a tenth of a compilation.
    gc.freeze()
    gc.disable()
    try:
        while True:
            protocol.send(replies, answer(protocol.receive(sys.stdin.fileno())))
            gc.collect()
    except (EOFError, BrokenPipeError):
        # The parent is done or was killed, and then nobody else clears up.
        shutil.rmtree(triton.knobs.cache.dir, ignore_errors=True)


def answer(message: KernelRequest | protocol.InputsOf) -> dict[str, Any] | str | protocol.Failure:
    """Compile, or digest the inputs; whatever Triton raises belongs to this request alone."""
    try:
        return digest_inputs(message.request) if isinstance(message, protocol.InputsOf) else compile_request(message)
    except Exception as error:  # noqa: BLE001 - a frontend may raise anything a kernel's author can provoke
        return protocol.Failure(f"{type(error).__name__}: {error}".strip())


@dataclass(frozen=True)
class Task:
    """A request in Triton's own terms."""

    target: Target
    gpu: GPUTarget
    backend: Any
    source: ASTSource
    options: dict[str, Value]


@contextmanager
def prepared(request: KernelRequest) -> Iterator[Task]:
    """The task of a request; inside, the knobs are set as it says."""
    target = find_target(request.target)
    gpu = GPUTarget(target.backend, target.arch, target.warp_size)
    backend = make_backend(gpu)
    check_settings(request, backend)
    source = make_source(request, backend)
    known = vars(backend.parse_options({"enable_fp_fusion": True}))
    options = {name: value for name, value in request.options if name in known}
    with triton.knobs.amd.scope():
        for name, value in request.knobs:
            setattr(triton.knobs.amd, name, value)
        # FP fusion is pinned because the versions differ in its default.
        yield Task(target, gpu, backend, source, {"enable_fp_fusion": True, **options})


def digest_inputs(request: KernelRequest) -> str:
    """SHA-256 of all that Triton's passes are given: target, options, knobs, and the IR without its line table."""
    with prepared(request) as task:
        options = task.backend.parse_options({**task.options, **task.source.parse_options()})
        context = ir.context()
        ir.load_dialects(context)
        task.backend.load_dialects(context)
        functions, modules = task.backend.get_codegen_implementation(options), task.backend.get_module_map()
        module = task.source.make_ir(task.gpu, options, functions, modules, context)
        # Where libraries lie is no matter; their content is the installation's.
        settings = {name: value for name, value in vars(options).items() if name != "extern_libs"}
        given = [repr(task.gpu), settings, request.knobs, module.str_nodebug()]
    return hashlib.sha256(json.dumps(given, sort_keys=True, default=str).encode()).hexdigest()


def compile_request(request: KernelRequest) -> dict[str, Any]:
    """Fields of a CompiledKernel, its key excepted."""
    start = time.process_time()
    with prepared(request) as task:
        compiled = triton.compile(task.source, target=task.gpu, options=task.options)
    seconds = time.process_time() - start
    source, target, gpu = task.source, task.target, task.gpu
    metadata = compiled.metadata._asdict() | {"target": asdict(gpu)}
    # Names directories of this installation and says nothing about the code.
    metadata.pop("extern_libs", None)
    signature = [(name, type_) for name, type_ in source.signature.items() if type_ != "constexpr"]
    return {
        "name": compiled.metadata.name,
        "target": request.target,
        "triton_version": triton.__version__,
        # Gluon starts at ttgir.
        **{stage: compiled.asm.get(stage, "") for stage in ("ttir", "ttgir", "llir")},
        "assembly": compiled.asm[target.assembly],
        "binary": compiled.asm[target.binary],
        # As it will read back from the cache: lists for tuples.
        "metadata": json.loads(json.dumps(metadata, default=str)),
        "arguments": lay_out_arguments(signature),
        "registers": read_figures(target, compiled),
        "compile_seconds": seconds,
    }


def check_settings(request: KernelRequest, backend: Any) -> None:
    """Triton itself ignores an option or knob that it does not know."""
    options = vars(backend.parse_options({"enable_fp_fusion": True}))
    knobs = [name for name in vars(type(triton.knobs.amd)) if name.startswith("use_")]
    for what, given, known in (("option", request.options, options), ("knob", request.knobs, knobs)):
        if unknown := sorted(name for name, _ in given if name not in (*known, *OPTIONS_OF_LATER_VERSIONS)):
            raise ValueError(f"unknown {what} {', '.join(unknown)}; known: {', '.join(sorted(known))}")


def make_source(request: KernelRequest, backend: Any) -> ASTSource:
    """Bind the request to the kernel's parameters, specialised as Triton's launcher would."""
    kernel = load_kernel(request.kernel)
    arguments, constexprs = dict(request.arguments), dict(request.constexprs)
    check_names(kernel, arguments, constexprs)
    uses_buffer_ops = dict(request.knobs).get("use_buffer_ops", True)
    signature: dict[str, str] = {}
    constants: dict[tuple[int], Any] = {}
    attributes: dict[tuple[int], Any] = {}
    for index, parameter in enumerate(kernel.params):
        name = parameter.name
        if parameter.is_constexpr:
            signature[name] = "constexpr"
            constants[(index,)] = constexprs.get(name, parameter.default)
            continue
        signature[name], hint = specialise(parameter, arguments[name], uses_buffer_ops)
        if signature[name] == "constexpr":
            constants[(index,)] = 1 if arguments[name].is_one else None
        elif hint:
            attributes[(index,)] = backend.parse_attr(hint)
    kind = GluonASTSource if isinstance(kernel, GluonJITFunction) else ASTSource
    return kind(kernel, signature, constants, attributes)


def specialise(parameter: Any, argument: Argument, uses_buffer_ops: bool) -> tuple[str, str]:
    """Type of a parameter for this argument, and Triton's hint letters: D divisible by 16, S storage under 2 GiB."""
    if argument.type == "none":
        return "constexpr", ""
    if argument.type.startswith(TENSOR_MAP):
        return laid_out(argument.type), ""
    declared = parameter.annotation_type
    is_pointer = argument.type.startswith("*")
    type_name = f"*k{argument.type[1:]}" if is_pointer and parameter.is_const else argument.type
    if parameter.do_not_specialize or declared[:2] in ("fp", "bf", "u1"):
        return declared or type_name, ""
    if argument.is_one and not declared:
        return "constexpr", ""
    hint = "D" if argument.divisible_by_16 and not parameter.do_not_specialize_on_alignment else ""
    if argument.within_2_gib and uses_buffer_ops:
        hint += "S"
    return declared or type_name, hint


def laid_out(tensor_map: str) -> str:
    """A tensor map's type, completed by the layout that its blocks have in shared memory."""
    element, _, block = tensor_map.removeprefix(f"{TENSOR_MAP}<").removesuffix(">").partition("[")
    dtype = {"bf16": gl.bfloat16, "fp16": gl.float16}[element]
    layout = gl.NVMMASharedLayout.get_default_for(json.loads(f"[{block}"), dtype)
    return f"{tensor_map.removesuffix('>')},{layout!r}>"


def check_names(kernel: Any, arguments: dict[str, Argument], constexprs: dict[str, Value]) -> None:
    """Every parameter gets one value, and nothing is left over."""
    runtime = {parameter.name for parameter in kernel.params if not parameter.is_constexpr}
    compile_time = {parameter.name for parameter in kernel.params if parameter.is_constexpr}
    optional = {parameter.name for parameter in kernel.params if parameter.has_default}
    for what, given, known in (("argument", arguments, runtime), ("constexpr", constexprs, compile_time)):
        if unknown := sorted(given.keys() - known):
            raise ValueError(f"unknown {what} {', '.join(unknown)}; the kernel takes {', '.join(sorted(known))}")
        needed = known - optional if what == "constexpr" else known
        if missing := sorted(needed - given.keys()):
            raise ValueError(f"{what} without a value: {', '.join(missing)}")


def load_kernel(reference: KernelRef) -> Any:
    """The JIT function that the reference names."""
    module = load_file(reference) if reference.path is not None else importlib.import_module(reference.module)
    kernel = getattr(module, reference.name, None)
    if not isinstance(kernel, triton.JITFunction):
        raise TypeError(f"{reference.module}.{reference.name} is not a triton.jit function")
    return kernel


def load_file(reference: KernelRef) -> ModuleType:
    """The module in a file that is not on the import path, loaded once."""
    name = f"{reference.module}@{reference.path}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, reference.path or "")
        if spec is None or spec.loader is None:
            raise ImportError(f"{reference.path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def read_figures(target: Target, compiled: Any) -> RegisterFigures | None:
    """Register figures: from the assembly on AMD, from the cubin on NVIDIA."""
    if target.is_amd:
        return amd_figures(compiled.asm["amdgcn"])
    cubin = next(path for name, path in compiled.metadata_group.items() if name.endswith(".cubin"))
    tool = triton.knobs.nvidia.cuobjdump.path
    usage = subprocess.run([tool, "--dump-resource-usage", cubin], capture_output=True, text=True, check=True)  # noqa: S603
    return nvidia_figures(usage.stdout)


if __name__ == "__main__":
    main()
