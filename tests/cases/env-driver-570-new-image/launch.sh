docker run --gpus all --ipc=host vllm/vllm-openai:kimi-k3 \
  /models/kimi-k3 --tensor-parallel-size 8 # first try
