"""Certificates for a webhook server: issued, stored, rotated, reloaded. Knows nothing of retry policies."""
