"""The offline reflector: a set of detectors, one per kind of lesson, that cite where they found it."""

from reflection.reflectors.rules.reflector import RulesReflector

__all__ = ["RulesReflector"]
