"""Six small Triton kernels that are not attention."""

import triton
import triton.language as tl


@triton.jit
def add(p_x, p_y, p_out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(p_out + o, tl.load(p_x + o, o < n) + tl.load(p_y + o, o < n), o < n)


@triton.jit
def softmax(p_x, p_out, n, BLOCK: tl.constexpr):
    row, o = tl.program_id(0) * n, tl.arange(0, BLOCK)
    x = tl.load(p_x + row + o, o < n, float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(p_out + row + o, e / tl.sum(e, 0), o < n)


@triton.jit
def layer_norm(p_x, p_weight, p_bias, p_out, n, eps, BLOCK: tl.constexpr):
    row, o = tl.program_id(0) * n, tl.arange(0, BLOCK)
    x = tl.load(p_x + row + o, o < n, 0.0).to(tl.float32)
    centred = tl.where(o < n, x - tl.sum(x, 0) / n, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / n + eps)
    tl.store(p_out + row + o, centred * scale * tl.load(p_weight + o, o < n) + tl.load(p_bias + o, o < n), o < n)


@triton.jit
def matmul(p_a, p_b, p_c, M, N, K, BLOCK: tl.constexpr):
    """a [M, K] times b [K, N] into float32 c [M, N]."""
    o_m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    o_n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    o_k = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        m_a = (o_m[:, None] < M) & (k + o_k[None, :] < K)
        m_b = (k + o_k[:, None] < K) & (o_n[None, :] < N)
        a = tl.load(p_a + o_m[:, None] * K + k + o_k[None, :], m_a, 0.0)
        b = tl.load(p_b + (k + o_k[:, None]) * N + o_n[None, :], m_b, 0.0)
        acc = tl.dot(a, b, acc)
    tl.store(p_c + o_m[:, None] * N + o_n[None, :], acc, (o_m[:, None] < M) & (o_n[None, :] < N))


@triton.jit
def total(p_x, p_out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(p_out, tl.sum(tl.load(p_x + o, o < n, 0.0), 0))


@triton.jit
def transpose(p_x, p_out, M, N, BLOCK: tl.constexpr):
    o_m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    o_n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (o_m[:, None] < M) & (o_n[None, :] < N)
    x = tl.load(p_x + o_m[:, None] * N + o_n[None, :], inside)
    tl.store(p_out + o_n[:, None] * M + o_m[None, :], tl.trans(x), tl.trans(inside))
