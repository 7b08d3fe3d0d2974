"""Seeded damage to images, base64 texts and request parameters, against a running server."""
