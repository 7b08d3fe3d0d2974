"""How new_pipeline.py turns an ONNX classifier and the ResNet50 folders into four new folders."""


class ScaffoldError(Exception):
    """A pipeline that cannot be made; the text is one line with cause and fix."""
