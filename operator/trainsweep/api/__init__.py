"""The custom resources as typed models, and the generator of their CRDs.

Fields, bounds, CEL rules and names of conditions live here; what is done with them lives in core, render and plan.
"""

GROUP = "trainsweep.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
