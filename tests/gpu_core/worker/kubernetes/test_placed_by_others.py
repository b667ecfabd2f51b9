"""Others place the pods: ledger and cluster agree on nodes, GPUs and times of every attempt."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpu_core.decisions.attempts.phase import AttemptPhase
from gpu_core.decisions.model.virtual_nodes import UNKNOWN_NODE, is_all_known
from gpu_core.worker.attempts.state import AttemptState
from tests.gpu_core.worker.kubernetes.jobs.test_bindings import (
    GPUS,
    KUEUE,
    a_cluster,
    a_node,
    a_pod,
    an_attempt,
)
from tests.gpu_core.worker.kubernetes.objects import NOW

GPUS_PER_NODE = 2
NODES = tuple(GPUS)


@dataclass
class Truth:
    """What the cluster did with an attempt.

    Attributes:
        admitted_at: When the worker created its Jobs.
        nodes: Where its pods are bound, in their order; None: not yet.
        bound_at: When the last of them was bound.
        ended_at: When they ended, or were deleted before they were all bound.
        lost: The pods whose node was deleted, so that nothing says how they ended.
        deleted: The pods that the cluster does not have any more.
        unseen: The pods that were deleted before this worker started to act.
    """

    running: AttemptState
    gpus: int
    admitted_at: datetime
    nodes: list[str | None]
    bound_at: datetime | None = None
    ended_at: datetime | None = None
    lost: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)
    unseen: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        return self.running.attempt.attempt_id

    @property
    def is_bound(self) -> bool:
        return None not in self.nodes

    def overlaps(self, other: "Truth") -> bool:
        """Had both their GPUs at one time? By moments in whole seconds, as Kubernetes has them."""
        if not (self.is_bound and other.is_bound):
            return False
        mine, theirs = (
            (whole_second(each.bound_at), whole_second(each.ended_at)) for each in (self, other)
        )
        return mine[0] < theirs[1] and theirs[0] < mine[1]


def whole_second(at):
    """A time as Kubernetes writes it: cut off to the second."""
    return at.replace(microsecond=0)


class PlacedByOthers(RuleBasedStateMachine):
    """A worker admits, another user binds, pods end, nodes go and come back, workers take over,
    and the worker looks whenever it does."""

    def __init__(self):
        super().__init__()
        self.now = NOW
        self.infrastructure = a_cluster(KUEUE)
        self.open: list[Truth] = []
        self.closed: list[Truth] = []
        self.number = 0
        self.nodes = {name: a_node(name) for name in NODES}

    def pod_of(self, truth, number):
        pod = a_pod(truth.name, number, truth.nodes[number], truth.gpus)
        if truth.nodes[number] is not None:
            moment = f"{truth.bound_at:%Y-%m-%dT%H:%M:%SZ}"
            pod["status"]["conditions"][0]["lastTransitionTime"] = moment
        if truth.ended_at is not None and truth.nodes[number] and number not in truth.lost:
            pod["status"]["phase"] = "Succeeded"
            finished = f"{truth.ended_at:%Y-%m-%dT%H:%M:%SZ}"
            state = {"terminated": {"exitCode": 0, "finishedAt": finished}}
            pod["status"]["containerStatuses"][0]["state"] = state
        return pod

    def show(self, truth):
        for number in range(len(truth.nodes)):
            if number not in truth.deleted:
                self.infrastructure._view._pod_changed(None, self.pod_of(truth, number))

    def delete_pod(self, truth, number):
        if number not in truth.deleted:
            truth.deleted.add(number)
            self.infrastructure._view._pod_changed(self.pod_of(truth, number), None)

    def holding(self):
        return [truth.running for truth in self.open]

    def bind(self, running):
        """What the scheduler does with one attempt, in a cycle and before its pods go."""
        self.move(running, self.infrastructure.binding(running, self.holding(), KUEUE))

    def bind_finally(self, running):
        """What the scheduler does once nothing of it lives."""
        self.move(running, self.infrastructure.final_binding(running, self.holding(), KUEUE))

    def move(self, running, binding):
        if binding is not None:
            running.attempt = replace(
                running.attempt,
                node=binding.placement.shares[0].node,
                gpu_ids=binding.placement.gpu_ids,
                shares=binding.placement.shares,
                admitted_at=max(binding.since, running.attempt.admitted_at),
                bound_at=binding.since if is_all_known(binding.placement) else None,
            )

    def free_ids(self):
        held = {
            (share.node, gpu)
            for each in self.infrastructure.allocations(self.holding(), KUEUE)
            for share in each.placement.shares
            for gpu in share.gpu_ids
        }
        ids = [str(number) for number in range(GPUS_PER_NODE)]
        return {node: [gpu for gpu in ids if (node, gpu) not in held] for node in self.nodes}

    def room(self):
        """The GPUs that the kube-scheduler has to give."""
        room = dict.fromkeys(self.nodes, GPUS_PER_NODE)
        for truth in self.open + self.closed:
            for node in truth.nodes:
                if node is not None and truth.ended_at is None:
                    room[node] -= truth.gpus
        return room

    @rule(milliseconds=st.sampled_from([1, 300, 1000, 4000]))
    def wait(self, milliseconds):
        self.now += timedelta(milliseconds=milliseconds)

    @rule(shape=st.sampled_from([(1, 1), (1, 1), (1, 2), (2, 1), (2, 2)]), data=st.data())
    def admit(self, shape, data):
        """The worker plans with what it knows; a gang has two nodes."""
        count, gpus = shape
        free = {node: ids for node, ids in self.free_ids().items() if len(ids) >= gpus}
        if len(free) < count:
            return
        nodes = data.draw(st.permutations(sorted(free)))[:count]
        self.number += 1
        places = [f"{node}: {' '.join(free[node][:gpus])}" for node in nodes]
        running = an_attempt(f"run-{self.number}", *places)
        running.attempt = replace(running.attempt, admitted_at=self.now)
        truth = Truth(running, gpus, self.now, [None] * count)
        self.open.append(truth)
        self.show(truth)

    @rule(data=st.data())
    def bind_a_pod(self, data):
        room = self.room()
        choices = [
            (truth, number, node)
            for truth in self.open
            for number, bound in enumerate(truth.nodes)
            for node, free in room.items()
            if bound is None and truth.ended_at is None and free >= truth.gpus
        ]
        if choices:
            truth, number, node = data.draw(st.sampled_from(choices))
            truth.nodes[number], truth.bound_at = node, self.now
            self.show(truth)

    @rule(data=st.data())
    def end(self, data):
        bound = [truth for truth in self.open if truth.is_bound and truth.ended_at is None]
        if bound:
            truth = data.draw(st.sampled_from(bound))
            truth.ended_at = self.now
            self.show(truth)

    @rule(data=st.data())
    def give_up(self, data):
        """A user deletes the Job of an attempt of which a pod still waits."""
        waiting = [truth for truth in self.open if not truth.is_bound and truth.ended_at is None]
        if waiting:
            truth = data.draw(st.sampled_from(waiting))
            truth.ended_at = self.now
            self.show(truth)

    @rule(data=st.data())
    def delete_pods(self, data):
        """Of an attempt that ended, as others may before it is settled."""
        ended = [truth for truth in self.open if truth.ended_at is not None]
        if ended:
            truth = data.draw(st.sampled_from(ended))
            for number in range(len(truth.nodes)):
                self.delete_pod(truth, number)

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def delete_node(self, data):
        """Its pods go without a word of how they ended, and with them their attempts."""
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        node = self.nodes.pop(name)
        self.infrastructure._view._node_changed(node, None)
        for truth in self.open:
            if truth.ended_at is None and name in truth.nodes:
                truth.ended_at = self.now
                truth.lost = {n for n, node in enumerate(truth.nodes) if node == name}
                self.show(truth)
                for number in truth.lost:
                    self.delete_pod(truth, number)

    @precondition(lambda self: len(self.nodes) < len(NODES))
    @rule(data=st.data())
    def add_node(self, data):
        """Another machine with a name that was there before."""
        self.now = whole_second(self.now) + timedelta(seconds=1)
        name = data.draw(st.sampled_from(sorted(set(NODES) - set(self.nodes))))
        self.nodes[name] = node = a_node(name)
        node["metadata"]["creationTimestamp"] = f"{self.now:%Y-%m-%dT%H:%M:%SZ}"
        self.infrastructure._view._node_changed(None, node)

    @rule()
    def take_over(self):
        """Another worker acts from now on, and sees what the cluster still has."""
        self.infrastructure = a_cluster(KUEUE, nodes=self.nodes.values())
        for truth in self.open:
            running = truth.running
            truth.running = replace(running, phase_at_first=AttemptPhase.RECOVERING)
            truth.unseen = frozenset(truth.deleted)
            self.show(truth)

    @rule()
    def cycle(self):
        self.infrastructure._offers.nodes(
            KUEUE, self.infrastructure.allocations(self.holding(), KUEUE)
        )
        for running in self.holding():
            self.bind(running)

    @precondition(lambda self: any(truth.ended_at for truth in self.open))
    @rule(data=st.data())
    def settle(self, data):
        """In whatever order the ends are seen."""
        ended = [truth for truth in self.open if truth.ended_at is not None]
        truth = data.draw(st.sampled_from(ended))
        self.cycle()
        is_confirmed = truth.running.attempt.bound_at is not None
        self.bind_finally(truth.running)
        self.open.remove(truth)
        attempt = truth.running.attempt
        nodes = sorted(share.node for share in attempt.held)
        assert [len(share.gpu_ids) for share in attempt.held] == [truth.gpus] * len(truth.nodes)
        if is_confirmed:
            assert nodes == sorted(truth.nodes), "what any worker has seen stands"
        else:
            seen = [node for n, node in enumerate(truth.nodes) if node and n not in truth.unseen]
            assert nodes == sorted(seen + [UNKNOWN_NODE] * (len(truth.nodes) - len(seen)))
        if not truth.is_bound or truth.unseen:
            return
        self.closed.append(truth)
        earliest = max(truth.admitted_at, whole_second(truth.bound_at))
        assert earliest <= attempt.admitted_at <= truth.bound_at

    @invariant()
    def no_gpu_had_two_attempts_at_a_time(self):
        for place, one in enumerate(self.closed):
            for other in self.closed[:place]:
                if one.overlaps(other):
                    assert not gpus_of(one) & gpus_of(other), (one, other)

    @invariant()
    def no_gpu_is_planned_with_twice(self):
        allocations = self.infrastructure.allocations(self.holding(), KUEUE)
        held = [
            (share.node, gpu)
            for each in allocations
            for share in each.placement.shares
            for gpu in share.gpu_ids
        ]
        assert len(held) == len(set(held))


def gpus_of(truth):
    """The GPUs that the ledger says it held."""
    return {(share.node, gpu) for share in truth.running.attempt.held for gpu in share.gpu_ids}


TestPlacedByOthers = PlacedByOthers.TestCase
