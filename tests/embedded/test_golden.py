"""Right answers: real weights on real photographs, and the whole chain equal to PyTorch's."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
import torch
import tritonclient.grpc as grpcclient
from image_cases.case import encoded
from PIL import Image
from torchvision.models import ResNet50_Weights, resnet50

from demonstration.photographs import load
from embedded import EmbeddedServer

# Any of these is right: the pictures show what ImageNet has several near names for.
GOLDEN = {
    "cat": {"tabby", "tiger cat", "Egyptian cat"},
    "coffee": {"espresso", "cup", "coffee mug"},
    "rocket": {"missile", "projectile"},
    "flower": {"daisy"},
    "temple": {"palace", "stupa"},
}


@pytest.fixture(scope="module")
def client(server: EmbeddedServer):
    with grpcclient.InferenceServerClient(server.grpc_address) as client:
        yield client


def infer(client, model: str, name: str, array: np.ndarray, kind: str, *outputs: str):
    tensor = grpcclient.InferInput(name, list(array.shape), kind)
    tensor.set_data_from_numpy(array)
    answer = client.infer(model, [tensor])
    return [answer.as_numpy(output) for output in outputs]


def test_real_weights_name_what_the_photographs_show(client) -> None:
    photographs = {photo.subject: photo for photo in load()}
    assert set(GOLDEN) <= set(photographs), sorted(photographs)
    for subject, names in GOLDEN.items():
        element = np.array([[photographs[subject].data]], dtype=object)
        (texts,) = infer(
            client, "efficientnet_lite0_ensemble", "RAW_IMAGE", element, "BYTES", "OUTPUT_RESULTS"
        )
        best = json.loads(texts[0, 0])["predictions"][0]
        assert best["class"] in names, (subject, best)


def test_the_server_s_logits_are_pytorch_s(client, server: EmbeddedServer) -> None:
    folder = server.model_repository / "resnet50_inference" / "1"
    weights = json.loads((folder / "manifest.json").read_text())["weights"]["name"]
    preset = ResNet50_Weights.IMAGENET1K_V2.transforms()
    if weights.startswith("random:"):
        torch.manual_seed(int(weights.partition(":")[2]))
        network = resnet50(weights=None).eval()
    else:
        network = resnet50(weights=ResNet50_Weights[weights]).eval()
    for photo in load():
        image = Image.open(io.BytesIO(photo.data)).convert("RGB")
        with torch.inference_mode():
            expected = network(preset(image)[None]).numpy()[0]
        element = np.array([[encoded(image, "PNG", compress_level=1)]], dtype=object)
        (pixels,) = infer(
            client, "resnet50_preprocess", "RAW_IMAGE", element, "BYTES", "PREPROCESSED_IMAGE"
        )
        (logits,) = infer(client, "resnet50_inference", "input", pixels, "UINT8", "output")
        cosine = expected @ logits[0] / np.linalg.norm(expected) / np.linalg.norm(logits[0])
        assert cosine >= 0.9999
        assert list(np.argsort(-logits[0])[:5]) == list(np.argsort(-expected)[:5])
