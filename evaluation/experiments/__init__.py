"""Experiments on live traffic: a frozen plan, its looks, and what they say."""
