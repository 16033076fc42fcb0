"""Reproducible training by named recipes."""

from curvbound.training.evaluation import Evaluation, evaluate
from curvbound.training.recipes import Recipe, get_recipe, recipes
from curvbound.training.trainer import TrainingResult, train

__all__ = ["Evaluation", "Recipe", "TrainingResult", "evaluate", "get_recipe", "recipes", "train"]
