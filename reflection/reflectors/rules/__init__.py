"""The offline reflector: a set of detectors, each of which knows one kind of lesson and says where it saw it."""

from reflection.reflectors.rules.reflector import RulesReflector

__all__ = ["RulesReflector"]
