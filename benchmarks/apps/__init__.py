"""The architectures that the ensemble is compared with, as FastAPI applications for uvicorn."""
