export VLLM_ENGINE_READY_TIMEOUT_S=3600
vllm serve /models/kimi-k3 -tp 8 --trust-remote-code
