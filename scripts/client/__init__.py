"""Ask a running server: images in, one outcome per image out, over HTTP or gRPC.

with connect("http://127.0.0.1:8000", model="resnet50_ensemble") as classifier:
    outcome, = classifier.classify([jpeg_bytes], top_k=3, lang="zh")
    print(outcome.result)   # {"predictions": […]} or {"error": CODE, "message": …}
"""

from client.classifier import Classifier, Outcome, connect
from client.errors import ClientError, RequestRefused, ServerUnreachable

__all__ = [
    "Classifier",
    "ClientError",
    "Outcome",
    "RequestRefused",
    "ServerUnreachable",
    "connect",
]
