"""Does the ONNX file answer as PyTorch does? Measured on noise and on real photographs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from PIL import Image
from torchvision.transforms import functional
from torchvision.transforms._presets import ImageClassification

from common.manifest import Recipe

COSINE_MIN = 0.9999
NOISE_BATCHES = (1, 2, 5)
# Bundled with two ordinary packages, so that nothing has to be downloaded.
_PHOTOGRAPHS = {
    "skimage.data": ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg"),
    "sklearn.datasets.images": ("china.jpg", "flower.jpg"),
}

Run = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Parity:
    """How far ONNX Runtime's logits are from PyTorch's, over ``images`` single images."""

    max_abs_logit_diff: float
    cosine_min: float
    top1_agreement: float
    images: int
    photographs: int

    def to_json(self) -> dict[str, float | int]:
        """As it stands in manifest.json."""
        return asdict(self)

    def summary(self) -> str:
        """The figures in one line."""
        return (
            f"cosine {self.cosine_min:.6f}, largest logit difference "
            f"{self.max_abs_logit_diff:.3g}, top-1 equal {self.top1_agreement:.0%} "
            f"of {self.images} ({self.photographs} photographs)"
        )

    def is_good(self, *, meaningful: bool) -> bool:
        """Same direction everywhere; same winner too, where the weights mean something."""
        return self.cosine_min >= COSINE_MIN and (self.top1_agreement == 1 or not meaningful)


def photographs() -> Iterator[tuple[str, Image.Image]]:
    """The bundled pictures (name, RGB) of those packages that are installed."""
    for package, names in _PHOTOGRAPHS.items():
        try:
            folder = files(package)
        except ModuleNotFoundError:
            continue
        for name in names:
            with folder.joinpath(name).open("rb") as stream, Image.open(stream) as picture:
                yield Path(name).stem, picture.convert("RGB")


def onnx_runner(path: Path) -> Run:
    """A call on an ONNX file with one input and one output, on the CPU."""
    opened = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = opened.get_inputs()[0].name
    return lambda batch: np.asarray(opened.run(None, {name: batch})[0])


def torch_runner(module: torch.nn.Module) -> Run:
    """The same call on a PyTorch module."""

    def run(batch: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return module(torch.from_numpy(batch)).numpy()

    return run


def preset(recipe: Recipe) -> ImageClassification:
    """torchvision's own evaluation transform for a recipe: RGB picture → FP32 [3, crop, crop]."""
    return ImageClassification(
        crop_size=recipe.crop_size,
        resize_size=recipe.resize_size,
        mean=recipe.mean,
        std=recipe.std,
    )


def cropped_uint8(picture: Image.Image, recipe: Recipe) -> np.ndarray:
    """The pixels that the preset normalises, before it does so: uint8 [crop, crop, 3]."""
    resized = functional.resize(picture, [recipe.resize_size], antialias=True)
    return np.array(functional.center_crop(resized, [recipe.crop_size]))


def noise(batch: int, recipe: Recipe) -> np.ndarray:
    """Uniform random pixels, uint8 [batch, crop, crop, 3], the same in every run."""
    shape = (batch, recipe.crop_size, recipe.crop_size, 3)
    return np.random.default_rng(batch).integers(0, 256, shape, dtype=np.uint8)


def normalised_noise(batch: int, recipe: Recipe) -> np.ndarray:
    """The same noise as the network itself takes it: FP32 [batch, 3, crop, crop]."""
    pixels = noise(batch, recipe).astype(np.float32) / 255
    normalised = (pixels - np.array(recipe.mean, np.float32)) / np.array(recipe.std, np.float32)
    return np.ascontiguousarray(normalised.transpose(0, 3, 1, 2))


def measure(pairs: list[tuple[np.ndarray, np.ndarray]], photograph_count: int) -> Parity:
    """Compare (reference, tested) logits, each [N, classes]."""
    reference = np.concatenate([pair[0] for pair in pairs]).astype(np.float64)
    tested = np.concatenate([pair[1] for pair in pairs]).astype(np.float64)
    lengths = np.linalg.norm(reference, axis=1) * np.linalg.norm(tested, axis=1)
    # Logits that are not finite give figures that are not, and those fail every comparison.
    with np.errstate(invalid="ignore", divide="ignore"):
        difference = np.abs(reference - tested).max()
        cosine = (np.sum(reference * tested, axis=1) / lengths).min()
    return Parity(
        max_abs_logit_diff=float(difference),
        cosine_min=float(cosine),
        top1_agreement=float(np.mean(reference.argmax(axis=1) == tested.argmax(axis=1))),
        images=len(reference),
        photographs=photograph_count,
    )


def compare_served(
    classifier: torch.nn.Module, served: torch.nn.Module, recipe: Recipe, path: Path
) -> Parity:
    """Compare an ONNX file that takes uint8 NHWC pixels with PyTorch.

    Noise goes through ``served``, the exported module. Photographs go through the bare
    ``classifier`` after torchvision's own preset, but into the ONNX file as uint8 pixels: that
    covers the folded normalisation too.
    """
    onnx_run, served_run, bare = onnx_runner(path), torch_runner(served), torch_runner(classifier)
    pairs = [(served_run(n), onnx_run(n)) for n in (noise(b, recipe) for b in NOISE_BATCHES)]
    transform = preset(recipe)
    pictures = [picture for _, picture in photographs()]
    for picture in pictures:
        reference = bare(transform(picture)[None].numpy())
        pairs.append((reference, onnx_run(cropped_uint8(picture, recipe)[None])))
    return measure(pairs, len(pictures))


def compare_bare(classifier: torch.nn.Module, recipe: Recipe, path: Path) -> Parity:
    """Compare an ONNX file that takes normalised FP32 NCHW images with PyTorch."""
    onnx_run, torch_run, transform = onnx_runner(path), torch_runner(classifier), preset(recipe)
    pictures = [transform(picture)[None].numpy() for _, picture in photographs()]
    batches = [*(normalised_noise(b, recipe) for b in NOISE_BATCHES), *pictures]
    return measure([(torch_run(batch), onnx_run(batch)) for batch in batches], len(pictures))
