"""Simulated SDKs: a vendor's own host ABI over the HOST engine, for machines without the vendor's hardware."""
