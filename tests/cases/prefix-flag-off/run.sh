VLLM_USE_V2_MODEL_RUNNER=1 vllm serve /models/kimi-k3 --tensor-parallel-size=8 \
   --no-enable-prefix-caching --tool-call-parser kimi_k3 --enable-auto-tool-choice
