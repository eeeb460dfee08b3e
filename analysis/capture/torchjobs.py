"""Eight small training jobs in PyTorch that load a GPU in different ways; each runs until it is stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from analysis.capture.steps import Steps

#: Job -> what it is, with its batch size; the order is that of the campaign.
JOBS = {
    "cnn": ("convolutions with batch norm, 3 x 64 x 64 images", 128),
    "transformer": ("encoder of 4 layers, width 512, 256 tokens, mixed precision", 32),
    "embedding": ("look-ups in 2,000,000 x 64 embeddings and a small network above", 8192),
    "mlp": ("four dense layers of width 4096", 512),
    "gan": ("generator and discriminator for 64 x 64 images", 64),
    "lstm": ("two LSTM layers of width 1024 over 64 steps", 64),
    "gemm": ("products of 4096 x 4096 matrices in half precision", 1),
    "copy": ("256 MiB streamed from one place of the GPU's memory to another", 1),
}  # fmt: skip

Step = Callable[[], Any]


def run(name: str, steps: int | None = None) -> None:
    """Train until stopped, or for a number of steps.

    Parameters
    ----------
    name : str
        One of `JOBS`.
    steps : int, optional
        For the profiler, which needs a few only.

    Raises
    ------
    SystemExit
        If PyTorch sees no GPU.
    """
    import torch

    if not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU")
    torch.manual_seed(0)
    step = _MAKERS[name](torch, JOBS[name][1])
    counted = Steps(per_step=JOBS[name][1])
    done = 0
    while steps is None or done < steps:
        step()
        torch.cuda.synchronize()  # otherwise what is counted is how fast work is queued
        counted.done()
        done += 1


def _training(
    torch: Any, model: Any, batch: Callable[[], tuple[Any, ...]], loss: Callable[..., Any], *, amp: bool
) -> Step:
    model = model.cuda().train()
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    inputs = batch()
    kind = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=kind, enabled=amp):
            value = loss(model, *inputs)
        value.backward()
        optimiser.step()

    return step


def _cnn(torch: Any, batch: int) -> Step:
    nn = torch.nn
    layers: list[Any] = []
    before = 3
    for width, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        layers += [nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        before = width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
    return _training(
        torch, model,
        lambda: (torch.randn(batch, 3, 64, 64, device="cuda"), torch.randint(1000, (batch,), device="cuda")),
        lambda net, x, y: nn.functional.cross_entropy(net(x), y), amp=False,
    )  # fmt: skip


def _transformer(torch: Any, batch: int) -> Step:
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, norm_first=True)
    model = nn.Sequential(
        nn.Embedding(8192, 512), nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), nn.Linear(512, 8192)
    )
    return _training(
        torch, model,
        lambda: tuple(torch.randint(8192, (batch, 256), device="cuda") for _ in range(2)),
        lambda net, x, y: nn.functional.cross_entropy(net(x).flatten(0, 1).float(), y.flatten()), amp=True,
    )  # fmt: skip


def _embedding(torch: Any, batch: int) -> Step:
    nn = torch.nn
    model = nn.Sequential(
        nn.EmbeddingBag(2_000_000, 64, mode="sum", sparse=True), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)
    ).cuda()  # fmt: skip
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)  # without momentum, which would be dense
    rows = torch.randint(2_000_000, (batch, 32), device="cuda")
    wanted = torch.rand(batch, 1, device="cuda")

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        nn.functional.mse_loss(model(rows), wanted).backward()
        optimiser.step()

    return step


def _mlp(torch: Any, batch: int) -> Step:
    nn = torch.nn
    layers = [part for _ in range(4) for part in (nn.Linear(4096, 4096), nn.ReLU())]
    return _training(
        torch, nn.Sequential(*layers),
        lambda: tuple(torch.randn(batch, 4096, device="cuda") for _ in range(2)),
        lambda net, x, y: nn.functional.mse_loss(net(x), y), amp=False,
    )  # fmt: skip


def _gan(torch: Any, batch: int) -> Step:
    nn = torch.nn
    make: list[Any] = []
    before = 128
    for width in (512, 256, 128, 64):
        first = not make
        make += [nn.ConvTranspose2d(before, width, 4, 1 if first else 2, 0 if first else 1, bias=False)]
        make += [nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        before = width
    generator = nn.Sequential(*make, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh()).cuda()
    judge: list[Any] = []
    before = 3
    for width in (64, 128, 256, 512):
        judge += [nn.Conv2d(before, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
        before = width
    critic = nn.Sequential(*judge, nn.Conv2d(512, 1, 4), nn.Flatten()).cuda()
    makers = [torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999)) for net in (generator, critic)]
    real = torch.randn(batch, 3, 64, 64, device="cuda")
    yes, no = torch.ones(batch, 1, device="cuda"), torch.zeros(batch, 1, device="cuda")
    score = nn.functional.binary_cross_entropy_with_logits

    def step() -> None:
        made = generator(torch.randn(batch, 128, 1, 1, device="cuda"))
        makers[1].zero_grad(set_to_none=True)
        (score(critic(real), yes) + score(critic(made.detach()), no)).backward()
        makers[1].step()
        makers[0].zero_grad(set_to_none=True)
        score(critic(made), yes).backward()
        makers[0].step()

    return step


def _lstm(torch: Any, batch: int) -> Step:
    nn = torch.nn
    return _training(
        torch, nn.LSTM(1024, 1024, 2, batch_first=True),
        lambda: tuple(torch.randn(batch, 64, 1024, device="cuda") for _ in range(2)),
        lambda net, x, y: nn.functional.mse_loss(net(x)[0], y), amp=False,
    )  # fmt: skip


def _gemm(torch: Any, batch: int) -> Step:
    a, b = (torch.randn(4096, 4096, device="cuda", dtype=torch.float16) for _ in range(2))
    out = torch.empty_like(a)

    def step() -> None:
        for _ in range(20):
            torch.mm(a, b, out=out)

    return step


def _copy(torch: Any, batch: int) -> Step:
    source = torch.zeros(64 << 20, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)

    def step() -> None:
        for _ in range(20):
            torch.mul(source, 1.0, out=target)  # a kernel; a plain copy is none, and the profiler would see nothing

    return step


_MAKERS: dict[str, Callable[[Any, int], Step]] = {
    "cnn": _cnn, "transformer": _transformer, "embedding": _embedding, "mlp": _mlp, "gan": _gan, "lstm": _lstm,
    "gemm": _gemm, "copy": _copy,
}  # fmt: skip
