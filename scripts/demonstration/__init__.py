"""The parts of `make demo`: prepare the models, ask about photographs, show the answers."""
