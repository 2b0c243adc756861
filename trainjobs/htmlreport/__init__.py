"""`report.html`: one self-contained page about a run, made from its own documents, for a look after the cluster is gone.

It asks no network for anything, runs no script but its own, and stays within a few MiB however many trials there are.
"""

from trainjobs.htmlreport.facts import Facts as Facts
from trainjobs.htmlreport.page import render as render
