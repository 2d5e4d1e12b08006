"""One round of our own client, as `signoff load` runs it.

python bench/our_client.py PORT STREAMS REQUESTS TOKENS SPREAD_S
"""

import sys

from signoff.core.codec import to_json
from signoff.run.load import run_load

if __name__ == "__main__":
    port, streams, requests, tokens = map(int, sys.argv[1:5])
    spread_s = float(sys.argv[5])
    print(to_json(run_load(f"http://127.0.0.1:{port}", streams, requests, tokens, spread_s=spread_s)).decode())
