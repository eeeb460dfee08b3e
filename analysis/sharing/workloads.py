"""The 24 workloads of the sample: twelve kinds of jobs, each with two batch sizes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from analysis.sharing.work import Kernel, Service, Workload


def gemm(name: str, grid: int, depth: float, *, threads: int = 256, footprint_mib: float = 2.5) -> Kernel:
    """Return a half-precision matrix product on tensor cores, operands staged through shared memory.

    Parameters
    ----------
    name : str
        Name of the kernel.
    grid : int
        Tiles of the result.
    depth : float
        Inner dimension in units of 1024.
    threads : int
        Threads of a block.
    footprint_mib : float
        Operand data that tiles have in common.
    """
    return Kernel(
        name, grid, threads, 128, 36.0, 5200 * depth, math=0.24, tensor=0.11, mio=0.17, lsu=0.022, mio_conflict=1.1,
        bytes=448, l1_hit=0.05, l2_hit=0.95, footprint_mib=footprint_mib, stores=0.08, parallel_loads=8.0,
        dependency=2.2, barrier=0.6, branch=0.05,
    )  # fmt: skip


def conv(name: str, grid: int, depth: float, *, footprint_mib: float = 2.0) -> Kernel:
    """Return an implicit-GEMM convolution: as `gemm`, with more address arithmetic and less reuse."""
    return Kernel(
        name, grid, 256, 112, 30.0, 4200 * depth, math=0.36, tensor=0.085, mio=0.16, lsu=0.030, mio_conflict=1.2,
        bytes=384, l1_hit=0.18, l2_hit=0.90, footprint_mib=footprint_mib, stores=0.10, parallel_loads=5.0,
        dependency=2.4, barrier=0.7, branch=0.12,
    )  # fmt: skip


def elementwise(name: str, grid: int, *, work: float = 1.0, footprint_mib: float = 96.0) -> Kernel:
    """Return a kernel that streams through memory once: activations, additions, casts."""
    return Kernel(
        name, grid, 256, 32, 0.0, 220 * work, math=0.48, lsu=0.075, bytes=224, l1_hit=0.0, l2_hit=0.45,
        footprint_mib=footprint_mib, stores=0.35, parallel_loads=2.0, dependency=2.2, branch=0.2,
    )  # fmt: skip


def norm(name: str, grid: int, *, threads: int = 256, work: float = 1.0) -> Kernel:
    """Return a reduction over rows: layer norm, batch norm, softmax; streams, then synchronises."""
    return Kernel(
        name, grid, threads, 40, 2.0, 420 * work, math=0.46, mio=0.12, lsu=0.050, bytes=192, l1_hit=0.12, l2_hit=0.60,
        footprint_mib=24.0, stores=0.33, parallel_loads=1.6, dependency=2.6, barrier=7.0, branch=0.4,
    )  # fmt: skip


def optimiser(name: str, grid: int, *, work: float = 1.0) -> Kernel:
    """Return a fused optimiser step: four arrays read, three written, nothing reused."""
    return Kernel(
        name, grid, 512, 64, 0.0, 520 * work, math=0.42, mio=0.03, lsu=0.13, bytes=384, l2_hit=0.15,
        footprint_mib=400.0, stores=0.42, parallel_loads=4.0, dependency=2.0,
    )  # fmt: skip


def attention(name: str, grid: int, depth: float) -> Kernel:
    """Return a fused attention: tensor work and exponentials out of registers and shared memory."""
    return Kernel(
        name, grid, 128, 200, 44.0, 6800 * depth, math=0.38, tensor=0.06, mio=0.20, lsu=0.010, mio_conflict=1.1,
        bytes=448, l1_hit=0.05, l2_hit=0.95, footprint_mib=3.0, stores=0.1, parallel_loads=8.0, dependency=2.2,
        barrier=0.5, branch=0.05,
    )  # fmt: skip


def gemv(name: str, grid: int, depth: float, *, reuse: float = 1.0) -> Kernel:
    """Return a product of a weight matrix with few vectors: every weight is read once, so memory is all.

    Parameters
    ----------
    name, grid : str, int
        Name and blocks.
    depth : float
        Inner dimension in units of 1024.
    reuse : float
        Vectors that share one pass over the weights.
    """
    return Kernel(
        name, grid, 128, 64, 4.0, 900 * depth * reuse**0.5, math=min(0.34 + 0.05 * reuse, 0.6), mio=0.05,
        lsu=0.14 / reuse**0.5, bytes=512, l2_hit=0.10, footprint_mib=800.0, stores=0.02, parallel_loads=6.0,
        dependency=1.6, barrier=0.4,
    )  # fmt: skip


def gather(name: str, grid: int, *, work: float = 1.0, footprint_mib: float = 900.0, reuse: float = 0.35) -> Kernel:
    """Return table look-ups at random rows: whole sectors for a few bytes, latency as much as bandwidth."""
    return Kernel(
        name, grid, 128, 36, 0.0, 600 * work, math=0.42, lsu=0.055, bytes=128, l1_hit=0.08, l2_hit=reuse,
        footprint_mib=footprint_mib, stores=0.15, parallel_loads=0.8, dependency=2.2, branch=0.7, fetch=0.3,
    )  # fmt: skip


def scatter(name: str, grid: int, *, work: float = 1.0) -> Kernel:
    """Return a sparse reduction with atomics: irregular rows, queues at the load/store unit, fences."""
    return Kernel(
        name, grid, 256, 40, 0.0, 700 * work, math=0.34, lsu=0.13, bytes=512, l1_hit=0.80, l2_hit=0.95,
        footprint_mib=3.0, stores=0.45, parallel_loads=1.5, dependency=1.8, branch=1.1, fence=1.2,
    )  # fmt: skip


def small(name: str, grid: int, *, threads: int = 128, work: float = 1.0) -> Kernel:
    """Return a launch too small for the GPU: few blocks, latency all over."""
    return Kernel(
        name, grid, threads, 40, 4.0, 700 * work, math=0.45, mio=0.08, lsu=0.05, bytes=144, l1_hit=0.35, l2_hit=0.85,
        footprint_mib=2.0, stores=0.25, parallel_loads=1.5, dependency=3.2, barrier=1.2, branch=0.6, fetch=0.9,
    )  # fmt: skip


def recurrent(name: str, grid: int, depth: float) -> Kernel:
    """Return one step of a recurrent or streaming layer: fp32 arithmetic, limited by the FMA pipe."""
    return Kernel(
        name, grid, 256, 72, 12.0, 3000 * depth, math=0.62, mio=0.15, lsu=0.025, bytes=256, l1_hit=0.30, l2_hit=0.92,
        footprint_mib=3.0, stores=0.2, parallel_loads=3.0, dependency=2.2, barrier=0.7, branch=0.1,
    )  # fmt: skip


def _cnn(batch: int) -> Workload:
    return Workload(
        f"resnet50_bs{batch}_amp_train",
        (
            (conv("cudnn_implicit_gemm_fprop_f16_nhwc_tensorop_128x64", 26 * batch, 1.1), 53),
            (conv("cudnn_implicit_gemm_wgrad_f16_nhwc_tensorop_64x64", 18 * batch, 1.7), 53),
            (norm("batch_norm_backward_nhwc_kernel<__half, float, 512>", 22 * batch, threads=512), 106),
        ),
        host_ms=6.0 + 0.05 * batch,
        memory_mib=2600 + 92 * batch,
    )


def _transformer(batch: int) -> Workload:
    return Workload(
        f"bert-base_bs{batch}_amp_train",
        (
            (gemm("cutlass_tensorop_f16_s16816gemm_f16_128x128_nn_align8", 36 * batch, 1.0), 160),
            (norm("softmax_warp_forward<c10::Half, c10::Half, float, 9, false>", 96 * batch), 96),
            (optimiser("multi_tensor_apply_kernel<AdamFunctor<float>>", 400, work=1.0), 32),
        ),
        host_ms=5.0,
        memory_mib=2900 + 210 * batch,
    )


def _lora(batch: int) -> Workload:
    return Workload(
        f"llama-7b-lora_bs{batch}_fp16_train",
        (
            (gemm("cutlass_tensorop_f16_s16816gemm_f16_256x128_tn_align8", 256 * batch, 3.0, footprint_mib=5), 400),
            (attention("flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4>>", 256 * batch, 0.9), 100),
            (elementwise("vectorized_elementwise_kernel<4, silu_kernel, c10::Half>", 5600 * batch), 200),
        ),
        host_ms=9.0,
        memory_mib=14600 + 1900 * batch,
    )


def _prefill(batch: int) -> Workload:
    return Workload(
        f"llama-7b-prefill_bs{batch}_fp16_infer",
        (
            (gemm("cutlass_tensorop_f16_s16816gemm_f16_128x256_tn_align8", 192 * batch, 4.0, footprint_mib=5), 128),
            (attention("flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>", 128 * batch, 0.8), 32),
        ),
        host_ms=1.5,
        memory_mib=13600 + 420 * batch,
        phase="inference",
        service=Service(load=0.4, steps=1, spread=0.4),
    )


def _decode(batch: int) -> Workload:
    return Workload(
        f"llama-7b-decode_bs{batch}_fp16_infer",
        (
            (gemv("gemv2T_kernel_val<int, __half, 128, 16, 4, 4, false>", 1376, 0.17, reuse=batch**0.4), 224),
            (small("paged_attention_v2_kernel<c10::Half, 128, 16>", 64 * batch, work=1.5), 32),
        ),
        host_ms=1.2,
        memory_mib=13400 + 520 * batch,
        phase="inference",
        service=Service(load=0.4, steps=48, spread=0.5),
    )


def _recommendation(batch: int) -> Workload:
    return Workload(
        f"dlrm_bs{batch}_fp32_train",
        (
            (gather("embedding_bag_forward_kernel<float, 128, false>", batch, work=2.6), 8),
            (scatter("split_embedding_backward_rowwise_adagrad_kernel<float>", batch, work=1.5), 8),
            (gemm("ampere_fp16_s16816gemm_fp16_64x64_relu_tn", max(batch // 16, 64), 0.5), 24),
        ),
        host_ms=1.2 + batch / 6000,
        memory_mib=5200 + batch * 0.25,
    )


def _speech(batch: int) -> Workload:
    return Workload(
        f"wav2vec2-base_bs{batch}_amp_train",
        (
            (gemm("cutlass_tensorop_f16_s16816gemm_f16_128x64_nt_align8", 44 * batch, 0.8), 160),
            (conv("cudnn_depthwise_conv1d_fprop_f16_tile128", 52 * batch, 0.6), 40),
            (elementwise("vectorized_elementwise_kernel<4, gelu_backward, c10::Half>", 520 * batch), 120),
        ),
        host_ms=13.0 + 0.4 * batch,
        memory_mib=2700 + 330 * batch,
    )


def _graph(batch: int) -> Workload:
    return Workload(
        f"graphsage_bs{batch}_fp32_train",
        (
            (gather("index_select_rows_kernel<float, long, 256>", 3 * batch, work=1.4, footprint_mib=1400), 12),
            (scatter("csr_spmm_atomic_kernel<float, int, 32>", 2 * batch, work=2.2), 12),
            (recurrent("sgemm_largek_lds64", max(batch // 12, 40), 0.6), 18),
        ),
        host_ms=7.0 + batch / 500,
        memory_mib=1900 + batch * 0.6,
    )


def _reinforcement(batch: int) -> Workload:
    return Workload(
        f"ppo-atari_bs{batch}_fp32_train",
        (
            (small("cudnn_winograd_nonfused_3x3_fp32_small", max(batch // 4, 24), work=2.2), 160),
            (recurrent("sgemm_32x32_sliced1x4_nn", max(batch // 8, 20), 0.35), 80),
            (small("unrolled_elementwise_kernel<direct_copy, float>", max(batch // 6, 16), work=0.7), 320),
        ),
        host_ms=13.0,
        memory_mib=1250 + batch * 0.9,
    )


def _gan(batch: int) -> Workload:
    return Workload(
        f"dcgan_bs{batch}_fp32_train",
        (
            (recurrent("implicit_convolve_sgemm<float, 128, 5, 5, 3>", 9 * batch, 1.0), 24),
            (elementwise("leaky_relu_backward_kernel<float>", 40 * batch), 48),
            (norm("bn_fw_tr_1C11_kernel_NCHW<float, 512>", 8 * batch, threads=512), 24),
        ),
        host_ms=4.5,
        memory_mib=1450 + 9 * batch,
    )


def _diffusion(batch: int) -> Workload:
    return Workload(
        f"sd-unet_bs{batch}_amp_train",
        (
            (conv("cudnn_implicit_gemm_fprop_f16_nhwc_tensorop_256x64", 330 * batch, 2.2, footprint_mib=4), 108),
            (attention("flash_bwd_dq_dk_dv_loop_kernel<Flash_bwd_kernel_traits<64, 64, 64>>", 160 * batch, 1.2), 36),
            (norm("group_norm_nhwc_fwd_kernel<c10::Half, 32>", 420 * batch), 180),
        ),
        host_ms=8.0,
        memory_mib=7800 + 2300 * batch,
    )


def _notebook(batch: int) -> Workload:
    return Workload(
        f"notebook-eda_bs{batch}_fp32_train",
        (
            (recurrent("sgemm_128x64_nn", 30 * batch, 2.0), 36),
            (scatter("radix_sort_onesweep_kernel<float, int>", 60 * batch, work=3.0), 36),
            (small("reduce_kernel<512, 1, MeanOps<float, float>>", 24, work=1.5), 180),
        ),
        host_ms=70.0,
        memory_mib=1500 + 24 * batch,
    )


_KINDS: tuple[tuple[Callable[[int], Workload], int, int], ...] = (
    (_cnn, 32, 128), (_transformer, 8, 32), (_lora, 1, 4), (_prefill, 1, 4), (_decode, 1, 16),
    (_recommendation, 2048, 8192), (_speech, 8, 24), (_graph, 1024, 4096), (_reinforcement, 256, 1024),
    (_gan, 64, 256), (_diffusion, 1, 4), (_notebook, 8, 32),
)  # fmt: skip


@lru_cache(maxsize=1)
def sample_workloads() -> tuple[Workload, ...]:
    """Return the 24 workloads.

    They are CNN, transformer, LoRA fine-tuning, LLM prefill, LLM decoding, recommendation, speech, graph network,
    reinforcement learning, GAN, diffusion and notebook-like bursts, each with two batch sizes.
    """
    return tuple(_own_mix(kind(batch)) for kind, *batches in _KINDS for batch in batches)


#: Properties in which the kernels of one kind differ from model to model, and how far.
_OWN = {"lsu": 0.18, "mio": 0.15, "dependency": 0.2, "barrier": 0.25, "parallel_loads": 0.15, "footprint_mib": 0.25}


def _own_mix(workload: Workload) -> Workload:
    """Give a model's kernels a mix of their own around what is typical; both batch sizes run the same kernels."""
    model = workload.name.partition("_bs")[0]
    kernels = []
    for kernel, count in workload.kernels:
        draws = hashlib.sha256(f"{model}/{kernel.name}".encode()).digest()
        changed = {
            name: getattr(kernel, name) * (1 + spread * (draw / 127.5 - 1))
            for (name, spread), draw in zip(_OWN.items(), draws, strict=False)
        }
        kernels.append((replace(kernel, **changed), count))
    return replace(workload, kernels=tuple(kernels))
