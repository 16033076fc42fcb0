#!/bin/sh
# Makes benchmarks/.peers: an environment with the libraries that benchmarks/curvature.py measures.
# torch comes first and pinned, because the others would pull in another build of it.
set -eu
cd "$(dirname "$0")/.."
here=benchmarks/.peers
python3 -m venv "$here"
pip="$here/bin/pip install --quiet --constraint constraints.txt"
$pip torch==2.13.0 numpy
before=$("$here/bin/python" -c "import torch; print(torch.__version__)")
$pip --pre hessian-eigenthings
$pip curvlinops-for-pytorch backpack-for-pytorch nngeometry laplace-torch
$pip --editable .
# torchvision is pulled in but does not load beside a CPU-only torch; nothing here needs it.
"$here/bin/pip" uninstall --quiet --yes torchvision torchaudio
after=$("$here/bin/python" -c "import torch; print(torch.__version__)")
[ "$before" = "$after" ] || { echo "torch changed from $before to $after" >&2; exit 1; }
echo "ready: $here/bin/python benchmarks/curvature.py (torch $after)"
