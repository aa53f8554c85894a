"""What actionspan costs: `python -m benchmarks`, explained in docs/performance.md."""
