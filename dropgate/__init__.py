"""dropgate: the end-to-end regression gate for vLLM's ``disable_eagle_block_drop``.

The flow is one-way: scenario -> variants -> engine -> workload -> evidence -> judge -> report.
"""

__version__ = "0.1.0"
