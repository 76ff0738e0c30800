"""What goes wrong before or while a pipeline runs, said in one line to the person who runs it."""

from __future__ import annotations


class PipelineError(Exception):
    """Something that its user can mend: the message names it and says how. Shown without a stack trace."""


class MissingPackages(PipelineError, ImportError):
    """Packages of the extra `spark` that are not installed."""
