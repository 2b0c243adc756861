"""TrainSweep: hyper-parameter sweeps of distributed PyTorch training on Kubernetes.

The operator, its pure core and the command line live here; what runs inside the Ray cluster lives in `trainjobs`.
"""

__version__ = "0.1.0"
