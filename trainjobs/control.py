"""What the operator tells this driver: the control document, polled as a file.

In the cluster it is a downwardAPI file made from the head pod's annotation: the kubelet swaps a symlink when it
changes, so it is opened anew by path each time. It may be absent, empty, or meant for another attempt.
"""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import ValidationError

from trainsweep.contract.documents import Control

logger = logging.getLogger(__name__)


class ControlFile:
    """The file and what it said last."""

    def __init__(self, path: Path | None, attempt_id: str) -> None:
        self._path, self._attempt_id = path, attempt_id
        self._text = b""
        self._control: Control | None = None

    def read(self) -> Control | None:
        """The control document for this attempt, None where there is none."""
        if self._path is None:
            return None
        try:
            text = self._path.read_bytes()
        except OSError:
            return self._control  # between two swaps of the symlink
        if text != self._text:
            self._text, self._control = text, self._parse(text)
        return self._control

    def _parse(self, text: bytes) -> Control | None:
        if not text.strip():
            return None
        try:
            control = Control.model_validate_json(text)
        except ValidationError as error:
            logger.error("the control document cannot be read and is ignored: %s", error.errors()[0]["msg"])
            return None
        if control.attempt_id != self._attempt_id:
            logger.info("a control document for attempt %s is ignored", control.attempt_id)
            return None
        return control
