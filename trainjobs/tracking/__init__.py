"""Trackers: MLflow, TensorBoard and W&B follow the trials as the sweep asks, from a thread beside the training.

Each is optional and told through one small interface; whatever happens in one is a warning, never a failed trial.
"""
