"""What `trainjobs` costs over raw Ray: the same sweeps by Ray's documented pattern and through our driver, interleaved.

Ratios decide, not seconds: both sides run on the same machine within the same minutes.
"""
