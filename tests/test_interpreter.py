from dataclasses import replace

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.errors import InterpreterError


@triton.jit
def through_bf16(p_x, p_y, p_z, N: tl.constexpr):
    o_n = tl.arange(0, N)
    b_y = tl.load(p_x + o_n).to(tl.bfloat16)
    tl.store(p_y + o_n, b_y)
    tl.store(p_z + o_n, b_y.to(tl.float32))


def test_float32_rounds_to_the_nearest_even_bf16(device):
    if device != "cpu":
        pytest.skip("the interpreter runs on the CPU")
    from workbench.interpreter import rounded_bf16

    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 3.4e38, 1e-40, 1.00390625, 1.01171875])
    x = torch.cat([special, torch.randn(1024 - len(special), generator=torch.Generator().manual_seed(0))])
    y, z = torch.empty(1024, dtype=torch.bfloat16), torch.empty(1024)
    with rounded_bf16():
        through_bf16[(1,)](x, y, z, 1024)
    torch.testing.assert_close(y, x.bfloat16(), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(z, x.bfloat16().float(), rtol=0, atol=0, equal_nan=True)


@triton.jit
def widened(p_x, p_y, N: tl.constexpr):
    o_n = tl.arange(0, N)
    tl.store(p_y + o_n, tl.load(p_x + o_n).to(p_y.dtype.element_ty))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_every_e4m3_code_widens_to_its_value(dtype, device):
    if device != "cpu":
        pytest.skip("the interpreter runs on the CPU")
    from workbench.interpreter import e4m3_with_nan

    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)
    values = torch.empty(256, dtype=dtype)
    with e4m3_with_nan():
        widened[(1,)](codes, values, 256)
    torch.testing.assert_close(values, codes.to(dtype), rtol=0, atol=0, equal_nan=True)


@triton.jit
def added(p_x, p_y, p_sum, N: tl.constexpr):
    o_n = tl.arange(0, N)
    tl.store(p_sum + o_n, tl.load(p_x + o_n) + tl.load(p_y + o_n))


@pytest.mark.parametrize("debug", [False, True])
def test_a_check_of_overflow_is_left_out_where_nothing_comes_of_it(debug, device, monkeypatch):
    """A sum that leaves the range wraps around as on a GPU, and is an error under debugging."""
    if device != "cpu":
        pytest.skip("the interpreter runs on the CPU")
    from triton.runtime.interpreter import interpreter_builder

    from workbench.interpreter import without_dropped_checks

    monkeypatch.setattr(interpreter_builder, "options", replace(interpreter_builder.options, debug=debug))
    x, y = torch.tensor([[2**31 - 1, 5], [1, 2]], dtype=torch.int32)
    out = torch.empty_like(x)
    with without_dropped_checks():
        if debug:
            with pytest.raises(InterpreterError, match="int32 overflow detected for operation add"):
                added[(1,)](x, y, out, 2)
        else:
            assert not interpreter_builder.options.sanitize_overflow
            added[(1,)](x, y, out, 2)
            assert out.tolist() == [-(2**31), 7]
    assert interpreter_builder.options.sanitize_overflow
