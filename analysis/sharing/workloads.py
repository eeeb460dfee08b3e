"""The 24 workloads of the sample: twelve kinds of jobs, each with two batch sizes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from analysis.sharing.archetypes import (
    attention,
    conv,
    elementwise,
    gather,
    gemm,
    gemv,
    norm,
    optimiser,
    recurrent,
    scatter,
    small,
)  # fmt: skip
from analysis.sharing.work import Service, Workload


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
