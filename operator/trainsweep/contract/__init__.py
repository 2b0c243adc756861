"""What operator and driver say to each other: storage layout, sweep file, control, progress, receipt; versioned.

Pure data and arithmetic over it: nothing here reads a file, a store or a clock.
"""

CONTRACT_VERSION = 1
"""The version that this code writes. The operator also reads the one before, once there is one."""
