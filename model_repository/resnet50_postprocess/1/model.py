"""LOGITS, IMAGE_STATUS, RECEIVED_NS → OUTPUT_RESULTS, as config.pbtxt says."""

from common.serving import PostprocessStage


class TritonPythonModel:
    """What Triton's Python backend calls."""

    def initialize(self, args):
        self.stage = PostprocessStage(args)

    def execute(self, requests):
        return self.stage.execute(requests)

    def finalize(self):
        self.stage.close()
