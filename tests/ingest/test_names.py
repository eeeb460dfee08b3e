"""Names of workloads, as every collection writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.ingest.contract.names import WorkloadParts, compose, parse_workload, phase, stem


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("ResNet-18 (batch size 16)", WorkloadParts("ResNet-18", "ResNet-18", None, 16, None, "training")),
        ("CycleGAN", WorkloadParts("CycleGAN", "CycleGAN")),
        ("albert-base-v2_batch16-train", WorkloadParts("albert-base-v2", "albert", None, 16, None, "training")),
        ("vit_h_14_batch8-train", WorkloadParts("vit_h_14", "vit", None, 8, None, "training")),
        ("vit-base-patch16-224_batch2-inf", WorkloadParts("vit-base-patch16-224", "vit", None, 2, None, "inference")),
        ("wav2vec2-base-960h_batch2-inf", WorkloadParts("wav2vec2-base-960h", "wav2vec2", None, 2, None, "inference")),
        ("ResNet18/CIFAR-10/32/1", WorkloadParts("ResNet18", "ResNet18", "CIFAR-10", 32, "amp", "training")),
        ("PPO/LunarLander/64/0", WorkloadParts("PPO", "PPO", "LunarLander", 64, "fp32", "training")),
        (
            "pytorch_whisper-large-v3_train_16",
            WorkloadParts("whisper-large-v3", "whisper-large-v3", None, 16, None, "training"),
        ),
        (
            "onnxruntime_llama-2-7b_infer_server_load_0.5_1",
            WorkloadParts("llama-2-7b", "llama-2-7b", None, 1, None, "inference"),
        ),
        ("onnxruntime_bert_infer_single-stream_1", WorkloadParts("bert", "bert", None, 1, None, "inference")),
        ("resnet50_bs64_amp_A100.csv", WorkloadParts("resnet50", "resnet50", None, 64, "amp")),
        ("bert-base-b8-fp16-train", WorkloadParts("bert-base", "bert-base", None, 8, "fp16", "training")),
        ("gpt2 batch size 4 inference", WorkloadParts("gpt2", "gpt2", None, 4, None, "inference")),
        ("resnet50/imagenet_bs64_bf16", WorkloadParts("resnet50", "resnet50", "imagenet", 64, "bf16")),
        ("polyfhe-rtx4090-stall-set1.csv", WorkloadParts("polyfhe-stall-set1", "polyfhe-stall-set1")),
        ("x_bs123456789012", WorkloadParts("x_bs123456789012", "x_bs123456789012")),
        ("b16webb16", WorkloadParts("b16webb16", "b16webb16")),
        ("", WorkloadParts("", "")),
    ],
)
def test_forms(text: str, parts: WorkloadParts) -> None:
    assert parse_workload(text) == parts


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resnet50_bs64_amp_A100.csv", "resnet50_bs64_amp"),
        ("runs/bert_V100-SXM2-32GB_b8.csv.gz", "bert_b8"),
        ("A100.csv", "A100"),
        ("my.run.v2.csv", "my.run.v2"),
    ],
)
def test_stem(name: str, expected: str) -> None:
    assert stem(name) == expected


def test_phase() -> None:
    assert [phase(word) for word in ("Train", "inf", "prefill", " ", None)] == [
        "training", "inference", "prefill", None, None,
    ]  # fmt: skip


_word = st.from_regex(r"[c-z][c-z0-9]{2,8}", fullmatch=True).filter(
    lambda word: parse_workload(word) == WorkloadParts(word, word)
)


@given(
    st.builds(
        WorkloadParts,
        model=_word,
        training_data=st.none() | _word,
        batch_size=st.none() | st.integers(1, 4096),
        precision=st.none() | st.sampled_from(["amp", "fp16", "bf16"]),
        phase=st.none() | st.sampled_from(["training", "inference"]),
    )
)
def test_a_composed_name_is_read_back(parts: WorkloadParts) -> None:
    read = parse_workload(compose(parts))
    assert read == WorkloadParts(**{**vars(parts), "family": parts.model})


@given(st.text(max_size=60))
def test_any_text_is_taken(text: str) -> None:
    assert parse_workload(text).model is not None
