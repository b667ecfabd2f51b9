"""Placement as plainly as it can be said, to compare the real one with."""

from itertools import groupby

from gpu_core.decisions.policy.placement import Strategy


class NaiveRoom:
    """What each GPU and node has left, in dictionaries; everything is looked at each time."""

    def __init__(self, nodes):
        self.nodes = {node.name: node for node in nodes}
        self.left = {
            (node.name, gpu): 1000
            for node in nodes
            for gpu in node.gpu_ids
            if gpu not in node.unhealthy_gpu_ids
        }
        self.cpu = {node.name: node.cpu_milli for node in nodes if node.cpu_milli is not None}
        self.holders = dict.fromkeys(self.nodes, 0)

    def change(self, shape, placement, sign):
        """Take (-1) or give (1); says whether nothing is taken twice."""
        for share in placement.shares:
            for gpu in share.gpu_ids:
                self.left[share.node, gpu] += sign * share.share_milli
            if share.node in self.cpu:
                self.cpu[share.node] += sign * shape.cpu_milli
            self.holders[share.node] -= sign
        return (
            all(0 <= left <= 1000 for left in self.left.values())
            and min(self.cpu.values(), default=0) >= 0
        )

    def fits(self, shape, node):
        enough = [x for x in self.of(node) if x >= shape.gpu_share_milli]
        return (
            (not shape.gpu_types or node.gpu_type in shape.gpu_types)
            and set(shape.node_labels) <= set(node.labels.items())
            and (shape.same_label is None or shape.same_label in node.labels)
            and node.taints <= shape.tolerations
            and (not shape.gpu_count or self.divides(shape, node))
            and len(enough) >= shape.gpu_count
            and self.cpu.get(node.name, shape.cpu_milli) >= shape.cpu_milli
        )

    def divides(self, shape, node):
        return node.has_whole_gpus if shape.gpu_share_milli == 1000 else node.is_shareable

    def of(self, node):
        return [left for (name, _), left in self.left.items() if name == node.name]

    def badness(self, shape, node, strategy):
        left = self.of(node)
        free = left.count(1000)
        match strategy:
            case Strategy.LEAST_LOADED:
                return 1 - free / len(left) if left else 1
            case Strategy.ROUND_ROBIN:
                return self.holders[node.name]
            case Strategy.SPREAD:
                return -free
            case Strategy.FRAGMENTATION_AWARE:
                return 0  # nothing is expected, so nothing is lost
        if shape.gpu_share_milli == 1000 or shape.gpu_count != 1:
            return free
        return min([x for x in left if shape.gpu_share_milli <= x < 1000], default=1000 * free)

    def find(self, shape, strategy):
        """The names of the nodes, or None."""
        fitting = [node for node in self.nodes.values() if self.fits(shape, node)]

        def group(node):
            return node.flavor, node.labels.get(shape.same_label)

        choices = []
        for _, members in groupby(sorted(fitting, key=group), group):
            ranked = sorted((self.badness(shape, n, strategy), n.name, n) for n in members)
            best = ranked[: shape.nodes]
            if len(best) == shape.nodes:
                wanted = shape.gpu_types.index(best[0][2].gpu_type) if shape.gpu_types else 0
                total = sum(badness for badness, _, _ in best)
                choices.append((wanted, total, [name for _, name, _ in best]))
        return min(choices)[2] if choices else None
