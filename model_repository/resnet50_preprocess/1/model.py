"""RAW_IMAGE → PREPROCESSED_IMAGE, IMAGE_STATUS, RECEIVED_NS; configured in config.pbtxt, the work is in common/."""

from common.serving import PreprocessStage


class TritonPythonModel:
    """What Triton's Python backend calls."""

    def initialize(self, args):
        self.stage = PreprocessStage(args)

    def execute(self, requests):
        return self.stage.execute(requests)

    def finalize(self):
        self.stage.close()
