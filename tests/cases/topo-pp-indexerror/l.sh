vllm serve /models/kimi-k3 -tp 8 -pp 2
