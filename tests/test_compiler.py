"""workbench.compiler on small kernels: both Triton versions, the cache, and processes that fail."""

import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from workbench.compiler import (
    Argument,
    CompiledKernel,
    KernelRef,
    KernelRequest,
    close_workers,
    compile_kernel,
    compile_many,
    describe_argument,
    installed_triton_version,
    pointer_argument,
    pool,
    service,
    triton_versions,
)
from workbench.compiler.cache import entry_path
from workbench.compiler.normalise import machine_code_digest
from workbench.compiler.pool import worker_environment
from workbench.compiler.service import input_digests, is_cached
from workbench.compiler.turns import Turns
from workbench.compiler.versions import PATHS_VARIABLE, compiler_digest, find_triton
from workbench.errors import CompileError, ParameterError, TargetError, TritonVersionError

SOURCE = """
import triton
import triton.language as tl


@triton.jit
def scale(p_x, p_y, n, step, factor, BLOCK: tl.constexpr, ROUND: tl.constexpr = False):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(p_x + o * step, mask=o < n, other=0.0).to(tl.float32) * factor
    tl.store(p_y + o, x.to(p_y.dtype.element_ty), mask=o < n)
"""
EACH_VERSION = pytest.mark.parametrize("version", list(triton_versions()))


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def kernel_file(tmp_path):
    path = tmp_path / "kernels_here.py"
    path.write_text(SOURCE)
    return path


def request_for(path, *, target="gfx950", pointers=None, **changes):
    pointer = pointers or pointer_argument("bfloat16")
    values = {"n": 1024, "step": 32, "factor": 2.0}
    fields = {
        "arguments": {"p_x": pointer, "p_y": pointer, **{name: describe_argument(v) for name, v in values.items()}},
        "constexprs": {"BLOCK": 1024},
        **changes,
    }
    return KernelRequest(kernel=KernelRef("kernels_here", "scale", str(path)), target=target, **fields)


@EACH_VERSION
def test_inputs_differ_where_the_code_may_and_nowhere_else(version, kernel_file, tmp_path):
    request = request_for(kernel_file, triton_version=version)
    moved, faster = tmp_path / "moved.py", tmp_path / "faster.py"
    moved.write_text(f"# Elsewhere.\n\n{SOURCE}")
    faster.write_text(SOURCE.replace("* factor", "* factor * factor"))
    changed = [
        {"constexprs": {"BLOCK": 512}}, {"options": {"num_warps": 8}}, {"options": {"waves_per_eu": 3}},
        {"knobs": {"use_buffer_ops": False}}, {"target": "gfx942"}, {"pointers": pointer_argument("float16")},
    ]  # fmt: skip
    others = [request_for(kernel_file, triton_version=version, **changes) for changes in changed]
    same, *different = input_digests(
        [request, request_for(moved, triton_version=version), request_for(faster, triton_version=version), *others]
    )
    assert different[0] == same
    assert len({same, *different[1:]}) == len(others) + 2
    assert not is_cached(request)


def test_inputs_of_a_kernel_that_the_frontend_refuses_are_an_error(kernel_file):
    refused, taken = input_digests([request_for(kernel_file, constexprs={"BLOCK": 1000}), request_for(kernel_file)])
    assert "must be a power of 2" in str(refused)
    assert isinstance(taken, str)


def test_an_edited_compiler_is_another(tmp_path, monkeypatch):
    package = tmp_path / "triton"
    for name in ("_C/libtriton.so", "compiler/code.py", "backends/amd/lib/ocml.bc", "backends/nvidia/bin/ptxas"):
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    monkeypatch.setattr("workbench.compiler.versions.find_triton", lambda version: tmp_path)
    digests = [compiler_digest("first", "hip")]
    for edited in ("backends/nvidia/bin/ptxas", "backends/amd/lib/ocml.bc", "compiler/code.py", "_C/libtriton.so"):
        (package / edited).write_text("edited")
        digests.append(compiler_digest(edited, "hip"))
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4


@EACH_VERSION
def test_compiles_although_this_process_interprets(version, kernel_file, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    kernel = compile_kernel(request_for(kernel_file, triton_version=version))
    assert kernel.triton_version == kernel.metadata["triton_version"] == version
    assert "s_endpgm" in kernel.assembly
    assert kernel.binary.startswith(b"\x7fELF")
    assert "tt.func" in kernel.ttir
    assert "ttg." in kernel.ttgir
    assert "define amdgpu_kernel" in kernel.llir
    assert (kernel.name, kernel.num_warps, kernel.lds_bytes) == ("scale", 4, 0)
    assert kernel.registers.vgprs > 0
    assert not kernel.registers.spills


@EACH_VERSION
@pytest.mark.parametrize("target", ["gfx942", "sm_90", "sm_100"])
def test_other_targets(version, target, kernel_file):
    kernel = compile_kernel(request_for(kernel_file, target=target, triton_version=version))
    assert re.search(rf"\.(amdgcn_target .*|target ){target}", kernel.assembly)
    assert kernel.binary.startswith(b"\x7fELF")
    assert kernel.registers.vgprs > 0


@EACH_VERSION
def test_one_target_leaves_nothing_behind_for_the_next(version, kernel_file):
    fp8 = {"pointers": pointer_argument("float8_e4m3fn"), "triton_version": version}
    compile_kernel(request_for(kernel_file, **fp8))
    after = compile_kernel(request_for(kernel_file, target="gfx942", **fp8))
    assert "v_cvt_scalef32" not in after.assembly


@EACH_VERSION
def test_argument_layout_is_that_of_the_binary(version, kernel_file):
    kernel = compile_kernel(request_for(kernel_file, triton_version=version))
    assert [(a.name, a.type) for a in kernel.arguments] == [
        ("p_x", "*bf16"),
        ("p_y", "*bf16"),
        ("n", "i32"),
        ("step", "i32"),
        ("factor", "fp32"),
    ]
    metadata = kernel.assembly.partition(".amdgpu_metadata")[2]
    placed = re.findall(r"\.offset:\s+(\d+)\n\s+\.size:\s+(\d+)", metadata)
    assert [(str(a.offset), str(a.size)) for a in kernel.arguments] == placed[:5]


@pytest.mark.parametrize(
    ("pointers", "knobs", "load"),
    [
        (pointer_argument("bfloat16"), {}, "buffer_load"),
        (pointer_argument("bfloat16", within_2_gib=False), {}, "global_load"),
        (pointer_argument("bfloat16"), {"use_buffer_ops": False}, "global_load"),
    ],
)
def test_buffer_loads_need_small_tensors_and_the_knob(pointers, knobs, load, kernel_file):
    kernel = compile_kernel(request_for(kernel_file, pointers=pointers, knobs=knobs))
    assert set(re.findall(r"\b(?:buffer|global)_load", kernel.assembly)) == {load}


def test_environment_does_not_steer(kernel_file, monkeypatch):
    usual = compile_kernel(request_for(kernel_file))
    monkeypatch.setenv("AMDGCN_USE_BUFFER_OPS", "0")
    monkeypatch.setenv("WORKBENCH_CACHE", str(kernel_file.parent / "another"))
    service.close_workers()
    assert compile_kernel(request_for(kernel_file)).assembly == usual.assembly


SPECIALISE = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.runtime.jit import create_function_from_signature
from workbench.compiler.request import describe_argument
from workbench.compiler.worker import specialise

@triton.jit(do_not_specialize=["fixed"], do_not_specialize_on_alignment=["ragged"])
def kernel(plain, fixed, ragged, const: triton.language.const, typed: "i64", number: "fp32"):
    pass

class Storage:
    def __init__(self, size): self.count = size
    def size(self): return self.count

class Tensor:
    dtype = "torch.bfloat16"
    def __init__(self, address, size): self.address, self.count = address, size
    def data_ptr(self): return self.address
    def untyped_storage(self): return Storage(self.count)
    def ptr_range(self): return self.count

backend = make_backend(GPUTarget("hip", "gfx950", 64))
bind = create_function_from_signature(kernel.signature, kernel.params, backend)
numbers = [0, 1, 16, 17, -1, -16, 2**31 - 1, 2**31, -2**31 - 1, 2**63, True, False, None, 1.0, 0.5]
tensors = [Tensor(address, size) for address in (0, 8, 256) for size in (64, 2**31 - 1, 2**31)]
for value in numbers + tensors:
    pointer = isinstance(value, Tensor)
    values = {p.name: (tensors[0] if p.name == "const" and not pointer else value) for p in kernel.params}
    if pointer or isinstance(value, float) or value is None:
        values["typed"] = 7
    if not isinstance(value, float):
        values["number"] = 0.5
    theirs = bind(**values)[1]
    for parameter, (type_, hint) in zip(kernel.params, theirs, strict=True):
        argument = describe_argument(values[parameter.name])
        ours = specialise(parameter, argument, uses_buffer_ops=True)
        assert ours == (type_, hint if isinstance(hint, str) else ""), (parameter.name, value, ours, type_, hint)
print("agree")
"""


@EACH_VERSION
def test_specialisation_is_tritons_own(version, tmp_path):
    script = tmp_path / "specialise.py"
    script.write_text(SPECIALISE)
    run = subprocess.run(
        [sys.executable, "-P", str(script)],
        env=worker_environment(find_triton(version), str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == "agree\n", run.stderr


def test_second_request_starts_no_process(kernel_file, monkeypatch):
    first = compile_kernel(request_for(kernel_file))
    monkeypatch.setattr(service, "worker_pool", lambda version, target: pytest.fail("a process was started"))
    assert compile_kernel(request_for(kernel_file)) == first


@pytest.mark.parametrize(
    "change",
    [
        {"constexprs": {"BLOCK": 512}},
        {"constexprs": {"BLOCK": 1024, "ROUND": 0}},
        {"constexprs": {"BLOCK": 1024, "ROUND": False}},
        {"options": {"num_warps": 8}},
        {"knobs": {"use_buffer_ops": False}},
        {"target": "gfx942"},
        {"pointers": pointer_argument("float16")},
        {"pointers": pointer_argument("bfloat16", divisible_by_16=False)},
    ],
)
def test_key_depends_on(change, kernel_file):
    keys = {request_for(kernel_file, **c).key("sources") for c in ({}, change, {"constexprs": {"BLOCK": 2048}})}
    assert len(keys) == 3
    assert request_for(kernel_file, label="another name").key("sources") == request_for(kernel_file).key("sources")


def test_edited_source_is_compiled_anew_by_a_warm_process(kernel_file):
    before = compile_kernel(request_for(kernel_file))
    kernel_file.write_text(SOURCE.replace("* factor", "* factor * factor"))
    after = compile_kernel(request_for(kernel_file))
    assert after.key != before.key
    assert machine_code_digest(after.assembly) != machine_code_digest(before.assembly)


def test_a_loaded_kernel_has_a_process_at_hand(kernel_file, monkeypatch):
    close_workers()
    service.load_kernel(request_for(kernel_file), 1)
    monkeypatch.setattr(pool, "Worker", lambda version, **how: pytest.fail("a process was started"))
    assert isinstance(compile_kernel(request_for(kernel_file)), CompiledKernel)


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b.replace(b"scale", b"skale")])
def test_damaged_entry_is_built_again(damage, kernel_file):
    kernel = compile_kernel(request_for(kernel_file))
    entry = entry_path(kernel.key)
    entry.write_bytes(damage(entry.read_bytes()))
    again = compile_kernel(request_for(kernel_file))
    assert again.assembly == kernel.assembly
    assert service.cache.load(kernel.key) == again


def test_unwritable_cache_costs_only_the_reuse(kernel_file, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "file"))
    assert isinstance(compile_kernel(request_for(kernel_file)), CompiledKernel)


def test_order_of_compilation_does_not_matter(kernel_file):
    hinted = {"options": {"schedule_hint": "attention", "waves_per_eu": 2}, "knobs": {"use_async_copy": True}}
    version = next(iter(triton_versions()))
    plain = request_for(kernel_file, triton_version=version)
    first = compile_kernel(plain)
    entry_path(first.key).unlink()
    compile_kernel(request_for(kernel_file, triton_version=version, **hinted))
    assert compile_kernel(plain).assembly == first.assembly


def test_process_that_dies_fails_its_own_request_only(kernel_file):
    killer = kernel_file.with_name("killer.py")
    killer.write_text('import os, sys\nprint("LLVM ERROR: out of sorts", file=sys.stderr)\nos.abort()\n')
    requests = [request_for(kernel_file), request_for(killer), request_for(kernel_file, constexprs={"BLOCK": 512})]
    seen = []
    outcomes = compile_many(requests, jobs=1, progress=lambda done, total, *_: seen.append((done, total)))
    assert [type(outcome) for outcome in outcomes] == [CompiledKernel, CompileError, CompiledKernel]
    assert "SIGABRT" in str(outcomes[1])
    assert "LLVM ERROR: out of sorts" in str(outcomes[1])
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_time_limit(kernel_file):
    sleeper = kernel_file.with_name("sleeper.py")
    sleeper.write_text("import time\ntime.sleep(60)\n")
    with pytest.raises(CompileError, match=r"did not finish scale in 0\.5 s"):
        compile_kernel(request_for(sleeper), time_limit=0.5)
    assert isinstance(compile_kernel(request_for(kernel_file)), CompiledKernel)


def test_time_for_which_a_process_stands_still_is_no_part_of_its_limit(kernel_file):
    # Refused at once, so that all of the time is spent on standing still.
    refused = request_for(kernel_file, options={"waves_per_simd": 2})
    compile_many([refused], gives_way=True)
    with ThreadPoolExecutor() as threads, pool._turns.awaited("another"):
        ahead = threads.submit(compile_many, [refused], gives_way=True, time_limit=1.0)
        time.sleep(1.3)
        assert not ahead.done()
    assert "unknown option" in str(ahead.result()[0])


def test_a_limit_of_the_cache_that_is_none_is_refused_before_anything_is_compiled(kernel_file, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE_GIB", "much")
    monkeypatch.setattr(service, "worker_pool", lambda version, target, **how: pytest.fail("a process was started"))
    with pytest.raises(ParameterError, match="WORKBENCH_CACHE_GIB"):
        compile_kernel(request_for(kernel_file))


def test_equal_requests_are_compiled_once(kernel_file, monkeypatch):
    compiled = []
    real = service._compile
    monkeypatch.setattr(service, "_compile", lambda request, *rest: compiled.append(request) or real(request, *rest))
    outcomes = compile_many([request_for(kernel_file)] * 3)
    assert len(compiled) == 1
    assert len({outcome.key for outcome in outcomes}) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": {"waves_per_simd": 2}}, "unknown option waves_per_simd"),
        ({"knobs": {"use_magic": True}}, "unknown knob use_magic"),
        ({"constexprs": {"BLOCK": 64, "TILE": 1}}, "unknown constexpr TILE; the kernel takes BLOCK, ROUND"),
        ({"constexprs": {}}, "constexpr without a value: BLOCK"),
        ({"arguments": {"p_x": Argument("*bf16")}}, "argument without a value: factor, n, p_y, step"),
        ({"constexprs": {"BLOCK": 100}}, "power of 2"),
        ({"target": "sm_90", "options": {"waves_per_eu": 2}}, "unknown option waves_per_eu"),
    ],
)
def test_refused_requests_say_why(changes, message, kernel_file):
    with pytest.raises(CompileError, match=message):
        compile_kernel(request_for(kernel_file, **changes))


def test_unknown_kernel(kernel_file):
    with pytest.raises(CompileError, match="does not exist"):
        compile_kernel(request_for(kernel_file.with_name("nowhere.py")))
    with pytest.raises(CompileError, match=r"no_such_package\.kernels"):
        compile_kernel(KernelRequest(kernel=KernelRef("no_such_package.kernels", "scale"), arguments={}))
    with pytest.raises(CompileError, match=r"tempfile\.mkdtemp is not a triton\.jit function"):
        compile_kernel(KernelRequest(kernel=KernelRef("tempfile", "mkdtemp"), arguments={}))


def test_unknown_target(kernel_file):
    with pytest.raises(TargetError, match="unknown target 'gfx90a'; use one of gfx950, gfx942, sm_90, sm_100"):
        request_for(kernel_file, target="gfx90a")


def test_missing_version_says_what_to_type(kernel_file):
    with pytest.raises(TritonVersionError, match=r"pip install --no-deps --target \.triton/0\.1 triton==0\.1"):
        request_for(kernel_file, triton_version="0.1")


def test_versions_from_the_variable(tmp_path, monkeypatch):
    (tmp_path / "triton-9.9.dist-info").mkdir()
    monkeypatch.setenv(PATHS_VARIABLE, f"9.9={tmp_path}")
    assert triton_versions()["9.9"] == tmp_path
    monkeypatch.setenv(PATHS_VARIABLE, f"9.8={tmp_path}")
    with pytest.raises(TritonVersionError, match="must be <version>=<directory>"):
        triton_versions()


def test_process_with_another_triton_than_promised(kernel_file, tmp_path, monkeypatch):
    (tmp_path / "triton-9.9.dist-info").mkdir()
    monkeypatch.setenv(PATHS_VARIABLE, f"9.9={tmp_path}")
    with pytest.raises(CompileError, match=r"asked for Triton 9\.9"):
        compile_kernel(request_for(kernel_file, triton_version="9.9"))


@pytest.mark.parametrize("value", ["text", 2**64, [1]])
def test_arguments_that_no_kernel_takes(value):
    with pytest.raises(CompileError):
        describe_argument(value)


def test_importing_needs_neither_triton_nor_torch():
    code = "import sys, workbench.compiler; sys.exit(bool({'triton', 'torch', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


ORPHAN = """
import os, sys
from workbench.compiler.pool import Worker
worker = Worker(sys.argv[1])
print(worker._scratch.name, flush=True)
os.kill(os.getpid(), 9)
"""


def said_before_its_end(script, source, **options):
    """What a parent process printed that started a worker and killed itself."""
    script.write_text(source)
    command = [sys.executable, str(script), installed_triton_version()]
    run = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert run.returncode == -9
    return run.stdout.strip()


def test_process_outlives_its_parent_by_nothing(tmp_path):
    scratch = Path(said_before_its_end(tmp_path / "orphan.py", ORPHAN))
    deadline = time.monotonic() + 30
    while scratch.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not scratch.exists()


STOPPED = """
import os, sys
from pathlib import Path
from workbench.compiler.pool import Worker
worker = Worker(sys.argv[1], gives_way=True)
worker.stop()
# On a busy machine a signal takes its time.
while " T " not in Path(f"/proc/{worker._process.pid}/stat").read_text():
    pass
print(worker._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_stopped_process_ends_with_its_parent(tmp_path):
    # As Jupyter starts a kernel, whose end is that of its terminal session.
    process = said_before_its_end(tmp_path / "orphan.py", STOPPED, start_new_session=True)
    status = Path(f"/proc/{process}/stat")
    deadline = time.monotonic() + 30
    while status.exists() and " Z " not in status.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not status.exists() or " Z " in status.read_text()


class FakeProcess:
    def __init__(self):
        self.runs = True

    def stop(self):
        self.runs = False

    def resume(self):
        self.runs = True


def test_what_gives_way_stands_still_while_another_kernel_is_awaited():
    turns, one, two = Turns(), FakeProcess(), FakeProcess()
    with turns.giving_way(one, "x"), turns.giving_way(two, "y"):
        with turns.awaited("x"), turns.awaited("z"):
            assert (one.runs, two.runs) == (True, False)
        assert (one.runs, two.runs) == (True, True)
        with turns.awaited("z"):
            assert (one.runs, two.runs) == (False, False)
            late = FakeProcess()
            with turns.giving_way(late, "w"):
                assert not late.runs
            assert late.runs
        assert (one.runs, two.runs) == (True, True)


def test_what_another_thread_compiles_is_waited_for(kernel_file, monkeypatch):
    started, released, calls = threading.Event(), threading.Event(), []

    def slow(request, *_rest):
        calls.append(request)
        started.set()
        released.wait(10)
        raise CompileError("refused once")

    monkeypatch.setattr(service, "_compile_anew", slow)
    request = request_for(kernel_file)
    with ThreadPoolExecutor() as threads:
        ahead = threads.submit(compile_many, [request], gives_way=True)
        assert started.wait(10)
        clicked = threads.submit(compile_many, [request])
        while not pool._turns._awaited:
            time.sleep(0.01)
        released.set()
        assert [str(outcome) for outcome in (*ahead.result(), *clicked.result())] == ["refused once"] * 2
    assert calls == [request]
