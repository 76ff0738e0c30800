"""All scenes."""

from support.scenes import producers, readers
from support.scenes.stage import SCENES, Said, Scene, play

__all__ = ["SCENES", "Said", "Scene", "play", "producers", "readers"]
