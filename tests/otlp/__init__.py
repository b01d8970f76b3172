# SPDX-License-Identifier: Apache-2.0
"""Checks of OTLP profiles files, for any test that writes one.

validate(path): the rules that a file breaks, as text; none when it is good.
totals(path): its samples by span and, outside of spans, by process, and the times of spans, after two decoders agreed
on them."""

from .check import totals, validate

__all__ = ["totals", "validate"]
