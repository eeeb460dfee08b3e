"""What a workload's name says: model, family, training data, batch size, precision, phase.

Every collection writes its names in its own way. The forms below are tried from the most particular to the loosest;
what a name does not say stays None, and the name itself is never changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from analysis.reference import gpus

TRAINING = "training"
INFERENCE = "inference"

_PHASES = {
    "train": TRAINING, "training": TRAINING, "finetune": TRAINING, "finetuning": TRAINING,
    "inf": INFERENCE, "infer": INFERENCE, "inference": INFERENCE, "eval": INFERENCE, "serve": INFERENCE,
    "serving": INFERENCE,
}  # fmt: skip
_PRECISIONS = ("amp", "fp32", "fp16", "bf16", "tf32", "fp64", "fp8", "fp4", "int8", "int4")
_SUFFIXES = re.compile(r"(?:\.(?:csv|tsv|txt|json|parquet|pq|log|sqlite|ncu-rep|gz|zip))+$", re.IGNORECASE)

#: Words separate at blanks and punctuation, so that "b16" is a batch size and the b16 of "webb16" is not.
_WORD = r"(?:(?<=[\s_\-/.,])|(?<=^))(?:{})(?=[\s_\-/.,]|$)"
_BATCH = re.compile(_WORD.format(r"(?:batch[\s_\-]?size|batch|bs)[\s_\-=]?(\d{1,7})"), re.IGNORECASE)
#: A single b is a batch size only where no longer word says it, and not in a model that is named so: vit_b_16.
_SHORT_BATCH = re.compile(_WORD.format(r"b[\s_\-=]?(\d{1,7})"), re.IGNORECASE)
#: Models whose variants are called b16, b32 ... after the size of their patches.
_VARIANT = re.compile(
    r"(?<![a-z])(?:vit|deit|clip|beit|mae|dinov?2?|siglip|mixer|efficientnet)[\s_\-]*b[\s_\-]?\d{1,2}$", re.IGNORECASE
)
_PRECISION = re.compile(_WORD.format("|".join(_PRECISIONS)), re.IGNORECASE)
_PHASE = re.compile(_WORD.format("|".join(sorted(_PHASES, key=len, reverse=True))), re.IGNORECASE)


@dataclass(frozen=True)
class WorkloadParts:
    """The settings of a workload as far as they are known.

    Attributes
    ----------
    model, family, training_data, precision, phase : str or None
        ``family`` is the model without its settings; ``phase`` is ``training`` or ``inference``.
    batch_size : int or None
        Samples a step.
    """

    model: str | None = None
    family: str | None = None
    training_data: str | None = None
    batch_size: int | None = None
    precision: str | None = None
    phase: str | None = None

    def known(self) -> dict[str, str | int]:
        """Return the parts that are known, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


def parse_workload(text: str) -> WorkloadParts:
    """Take a workload's name, or a file name, apart.

    Parameters
    ----------
    text : str
        For example ``ResNet-18 (batch size 16)``, ``albert-base-v2_batch16-train``, ``ResNet18/CIFAR-10/32/1``,
        ``pytorch_whisper-large-v3_train_16`` or ``resnet50_bs64_amp_A100.csv``.

    Returns
    -------
    WorkloadParts
        What the name says; a name without any settings is its own model and family.

    Examples
    --------
    >>> parse_workload("resnet50_bs64_amp_A100.csv").batch_size
    64
    """
    plain = text.strip()
    for form in _FORMS:
        parts = form(plain)
        if parts is not None:
            return parts
    return _loose(plain)


def compose(parts: WorkloadParts) -> str:
    """Write a workload's name from its parts, in a form that `parse_workload` reads back.

    Examples
    --------
    >>> compose(WorkloadParts(model="resnet50", batch_size=64, precision="amp", phase="training"))
    'resnet50_bs64_amp_training'
    """
    pieces = [
        "/".join(piece for piece in (parts.model, parts.training_data) if piece),
        f"bs{parts.batch_size}" if parts.batch_size is not None else None,
        parts.precision,
        parts.phase,
    ]
    return "_".join(piece for piece in pieces if piece)


def phase(text: str | None) -> str | None:
    """Return ``training`` or ``inference`` for the ways people write them; other words stay as they are."""
    plain = (text or "").strip()
    return _PHASES.get(plain.casefold(), plain) or None


def stem(file_name: str) -> str:
    """Return a file's name without folder, format and packing suffixes, and GPU: the default name of a workload."""
    plain = _SUFFIXES.sub("", re.split(r"[/\\]", file_name)[-1])
    found = gpus.locate(plain)
    if found is not None:
        rest = _tidy(plain[: found[1]] + plain[found[2] :])
        plain = rest or plain
    return plain


def _gavel(text: str) -> WorkloadParts | None:
    match = re.fullmatch(r"(?P<model>.+?) \(batch size (?P<batch>\d{1,7})\)", text)
    if match is None:
        return None
    return WorkloadParts(match["model"], match["model"], None, int(match["batch"]), None, TRAINING)


def _kace(text: str) -> WorkloadParts | None:
    match = re.fullmatch(r"(?P<model>[^/\s]+)_batch(?P<batch>\d{1,7})-(?P<phase>train|inf)", text)
    if match is None:
        return None
    # The base of the model names is its family: vit-base-patch16-224 and vit_h_14 are both vit.
    family = re.split(r"[-_]", match["model"])[0]
    return WorkloadParts(match["model"], family, None, int(match["batch"]), None, _PHASES[match["phase"]])


def _lucid(text: str) -> WorkloadParts | None:
    match = re.fullmatch(r"(?P<model>[^/]+)/(?P<data>[^/]+)/(?P<batch>\d{1,7})/(?P<amp>0|1|amp|fp32)", text)
    if match is None:
        return None
    precision = "amp" if match["amp"] in ("1", "amp") else "fp32"
    return WorkloadParts(match["model"], match["model"], match["data"], int(match["batch"]), precision, TRAINING)


def _tally(text: str) -> WorkloadParts | None:
    match = re.fullmatch(
        r"(?:pytorch|onnxruntime|hidet|tensorflow)_(?P<model>.+?)_(?P<phase>train|infer)(?:_.+)?_(?P<batch>\d{1,7})",
        text,
    )
    if match is None:
        return None
    return WorkloadParts(match["model"], match["model"], None, int(match["batch"]), None, _PHASES[match["phase"]])


_FORMS: tuple[Callable[[str], WorkloadParts | None], ...] = (_gavel, _kace, _lucid, _tally)


def _loose(text: str) -> WorkloadParts:
    """Pick the settings out of a free name; what is left, without GPU and suffix, is the model."""
    rest = stem(text) if _SUFFIXES.search(text) or gpus.locate(text) else text
    batch: int | None = None
    precision: str | None = None
    phase_found: str | None = None
    if match := _BATCH.search(rest) or _short_batch(rest):
        batch = int(match[1])
        rest = _cut(rest, match)
    if match := _PRECISION.search(rest):
        precision = match.group().lower()
        rest = _cut(rest, match)
    if match := _PHASE.search(rest):
        phase_found = _PHASES[match.group().casefold()]
        rest = _cut(rest, match)
    model, _, data = rest.partition("/")
    model = _tidy(model) or text
    return WorkloadParts(model, model, _tidy(data) or None, batch, precision, phase_found)


def _short_batch(text: str) -> re.Match[str] | None:
    """Find the last ``b64`` of a name; that of ``vit_b16`` belongs to the model, whose variant it is."""
    found = list(_SHORT_BATCH.finditer(text))
    if not found:
        return None
    last = found[-1]
    return None if _VARIANT.search(text[: last.end()]) else last


def _cut(text: str, match: re.Match[str]) -> str:
    return _tidy(text[: match.start()] + text[match.end() :])


def _tidy(text: str) -> str:
    """Close the gap that a cut leaves, and take separators off the ends."""
    closed = re.sub(r"([\s_\-.,])[\s_\-.,]+", r"\1", text)
    return closed.strip(" _-.,/()")
