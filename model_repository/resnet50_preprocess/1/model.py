"""RAW_IMAGE → PREPROCESSED_IMAGE, IMAGE_STATUS, RECEIVED_NS, as config.pbtxt says."""

from common.serving import PreprocessStage


class TritonPythonModel:
    """What Triton's Python backend calls."""

    def initialize(self, args):
        self.stage = PreprocessStage(args)

    def execute(self, requests):
        return self.stage.execute(requests)

    def finalize(self):
        self.stage.close()
