"""Is the decoder exact on this GPU, and how fast? One script for a bare machine: torch, transformers and numpy suffice.

python -m specbench.decoder.gpu_check --output gpu-check.json      # begins nothing more after 8 minutes
python -m specbench.decoder.gpu_check --show gpu-check.json        # read it again
"""
