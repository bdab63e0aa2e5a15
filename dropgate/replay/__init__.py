"""vLLM's real scheduler and KV cache, driven without a model.

A layout (YAML) says which layers a model has and how the server is started. vLLM's own code groups the
layers, resolves the block sizes, marks the draft groups and schedules; only the model's answers are stood in
for.
"""
