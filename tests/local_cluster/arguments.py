"""Options of the command line that several programs have: the shape of a node."""

import argparse
from dataclasses import fields

from gpu_node import NodeShape


def add_shape(parser: argparse.ArgumentParser) -> None:
    """Add an option for each field of `NodeShape`, with the field's default."""
    for field in fields(NodeShape):
        parser.add_argument(
            "--" + field.name.replace("_", "-"), type=type(field.default), default=field.default,
            help=f"default {field.default}",
        )  # fmt: skip


def shape_of(options: argparse.Namespace) -> NodeShape:
    """The shape that the options name."""
    return NodeShape(**{f.name: getattr(options, f.name) for f in fields(NodeShape)})
