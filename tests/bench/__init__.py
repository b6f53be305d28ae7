"""Programs that measure and print figures: `python -m tests.bench.NAME`, some after `python -m tests.cluster --`."""
