"""One name a GPU, and figures that hang together."""

from __future__ import annotations

import pytest

from analysis.reference import gpus


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB"),
        ("A100-PCIE-40GB MIG 1g.5gb", "A100-40GB"),
        ("a100", "A100"),
        ("NVIDIA A100-SXM4", "A100"),
        ("Tesla V100-SXM2-16GB", "V100-16GB"),
        ("Tesla V100-PCIE-32GB", "V100-32GB"),
        ("v100", "V100"),
        ("Tesla P100-PCIE-16GB", "P100"),
        ("Tesla K80", "K80"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("rtx4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 5070 Ti", "RTX 5070 Ti"),
        ("NVIDIA GeForce RTX 5070", "RTX 5070"),
        ("NVIDIA RTX A4500", "A4500"),
        ("NVIDIA RTX 2000 Ada Generation", "RTX 2000 Ada"),
        ("NVIDIA Tegra X1 (0)", "Tegra X1"),
        ("Tesla V100-SXM2-16GB (3)", "V100-16GB"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("H100", "H100"),
        ("H100 80GB", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA L40S", "L40S"),
    ],
)
def test_known_spellings(text: str, name: str) -> None:
    assert gpus.canonical(text) == name


@pytest.mark.parametrize(
    "text",
    [
        "unknown",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 3080 12GB",
        "Tesla P100-PCIE-12GB",
        "NVIDIA A100-SXM-64GB",
        "NVIDIA A10G",
        "NVIDIA H100 NVL",
        "NVIDIA H20-3e",
        "AMD MI300X",
        "",
    ],
)
def test_other_gpus_are_not_taken_for_known_ones(text: str) -> None:
    assert gpus.canonical(f" {text} ") == text
    assert not gpus.known(text)


def test_every_name_is_its_own_canonical_name() -> None:
    for name in gpus.load().index:
        assert gpus.canonical(name) == name
        assert gpus.canonical(name.lower()) == name


def test_compute_capability() -> None:
    assert gpus.from_cc("8.0")[0] == "A100"
    assert set(gpus.from_cc("7.0")) == {"V100", "V100-16GB", "V100-32GB"}
    assert gpus.from_cc("5.3") == ["Tegra X1"]
    assert gpus.from_cc("99.9") == []


def test_resolve_takes_a_family_for_its_variants() -> None:
    there = ["K80", "V100", "V100-32GB", "A100-40GB", "my card"]
    assert gpus.resolve("V100", there) == ["V100", "V100-32GB"]
    assert gpus.resolve("v100-32gb", there) == ["V100-32GB"]
    assert gpus.resolve("V100-16GB", there) == []
    assert gpus.resolve("Tesla V100-SXM2-32GB", there) == ["V100-32GB"]
    assert gpus.resolve("MY CARD", there) == ["my card"]
    assert gpus.resolve(None, there) == there
    assert gpus.matches("V100-16GB", "V100")
    assert not gpus.matches("V100", "V100-16GB")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("resnet50_bs64_amp_A100", "A100"),
        ("polyfhe-rtx4090-stall-set1", "RTX 4090"),
        ("cudnn-rtx5070ti-nsys-resnet18", "RTX 5070 Ti"),
        ("bert_V100-SXM2-32GB_b8", "V100-32GB"),
        ("hami-rtx2000ada-sharing-smi", "RTX 2000 Ada"),
        ("resnet18_step3090", None),
        ("mat4l4x", None),
    ],
)
def test_a_gpu_inside_a_file_name(text: str, name: str | None) -> None:
    found = gpus.locate(text)
    assert (found[0] if found else None) == name


def test_figures_hang_together() -> None:
    frame = gpus.load()
    complete = frame[~frame["source"].str.contains("left open")]
    assert frame["source"].str.len().gt(10).all()
    assert (complete["sm_count"] > 0).all()
    # Peak single-precision rate in TFLOPS, as the datasheets print it.
    peak = 2 * frame["sm_count"] * frame["fp32_lanes_per_sm"] * frame["boost_clock_mhz"] / 1e6
    for name, tflops in {
        "K80": 4.4, "P100": 10.6, "V100": 15.7, "T4": 8.1, "RTX 2080 Ti": 13.4, "A10": 31.2, "A100-40GB": 19.5,
        "A30": 10.3, "A40": 37.4, "A4500": 23.7, "A6000": 38.7, "RTX 3080": 29.8, "RTX 3090": 35.6, "RTX 4090": 82.6,
        "RTX 4080": 48.7, "RTX 2000 Ada": 12.0, "L4": 30.3, "L40": 90.5,
        "L40S": 91.6, "H100-SXM": 66.9, "H100-PCIe": 51.2, "H200": 66.9,
        "B200": 75.0, "RTX 5070": 30.9, "RTX 5070 Ti": 43.9, "RTX 5080": 56.3, "RTX 5090": 104.8, "GTX 1080 Ti": 11.3,
        "Tegra X1": 0.236, "RTX 2080": 10.1, "RTX 2070 SUPER": 9.1, "RTX 3060": 12.7, "RTX 3070": 20.3,
        "RTX 3080 Ti": 34.1, "RTX 3090 Ti": 40.0, "A4000": 19.2, "A5000": 27.8, "RTX 4060": 15.1, "RTX 4060 Ti": 22.1,
        "RTX 4070": 29.1, "RTX 4070 SUPER": 35.5, "RTX 4070 Ti": 40.1, "RTX 4070 Ti SUPER": 44.1,
        "RTX 4080 SUPER": 52.2, "RTX 5060": 19.2, "RTX 5060 Ti": 23.7,
    }.items():  # fmt: skip
        assert peak[name] == pytest.approx(tflops, rel=0.01), name
    assert set(frame.index[frame["mig"]]) == {
        "A100", "A100-40GB", "A100-80GB", "A30", "H100", "H100-SXM", "H100-PCIe", "H200", "B200", "GH200", "H20",
        "B300",
    }  # fmt: skip
