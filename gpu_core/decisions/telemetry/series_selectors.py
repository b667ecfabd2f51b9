"""The series of a Prometheus that are ours. It may have those of other clusters, too."""

import json
from collections.abc import Collection, Iterator

NODE_LABELS = ("node", "hostname", "Hostname")
"""The labels in which exporters, or the configuration of a Prometheus, name the node of a GPU."""

NAMESPACE_LABELS = ("namespace", "exported_namespace")
"""The labels in which they name the namespace of the pod on it."""


def selectors(
    names: Collection[str], labels: Collection[str], values: Collection[str]
) -> Iterator[str]:
    """One selector for each label: metrics of these names whose label has one of these values.

    >>> [*selectors(["up"], ["node"], ["n2", "n1"])]
    ['{__name__=~"up",node=~"n1|n2"}']

    Args:
        names: Of metrics, without characters that regular expressions know.
        labels: None, and there is no selector.
        values: Names of Kubernetes: of their characters regular expressions know the dot. None, and
            there is no selector.
    """
    either = "|".join(sorted(value.replace(".", r"\.") for value in values))
    for label in labels if values else ():
        yield f'{{__name__=~"{"|".join(names)}",{label}=~{json.dumps(either)}}}'
