"""The machines that the decisions know by heart are those of the catalog, where it has them."""

import pytest

from gpu_core.adapters.files.catalog_file import shipped_catalog
from gpu_core.decisions.kubernetes.nodes.clouds import (
    INSTANCE_TYPE_LABEL,
    gpu_type_expressions,
    selectable_gpu_types,
)
from gpu_core.decisions.kubernetes.nodes.ec2_labels import EC2_SIZES
from gpu_core.decisions.kubernetes.nodes.instance_types import INSTANCE_GPUS, instance_types_with
from gpu_core.decisions.kubernetes.nodes.labels import gpu_type_of
from gpu_core.decisions.model.workload import WHOLE_GPU_MILLI
from gpu_core.decisions.policy.kubernetes import Provisioner

EC2 = {
    key.name: machine
    for key, machine in shipped_catalog().instance_types.items()
    if key.provider == "aws"
}
WHOLE = {
    name: (machine.gpu_type, machine.gpu_count)
    for name, machine in EC2.items()
    if machine.gpu_share_milli == WHOLE_GPU_MILLI
}


def test_the_table_of_ec2_is_the_catalog_s():
    """One that is only here has no facts or prices; one that is only there is never selected."""
    known = {name: tuple(gpus) for name, gpus in INSTANCE_GPUS.items() if "." in name}
    assert known == WHOLE, "the catalog counts: bring _EC2 in instance_types.py up to date"


def test_cores_and_memory_are_the_catalog_s():
    of_catalog = {name: (EC2[name].vcpus, EC2[name].memory_gib) for name in WHOLE}
    assert {name: tuple(size) for name, size in EC2_SIZES.items()} == of_catalog


def test_machines_with_a_part_of_a_gpu_are_unknown():
    """They have no whole one that a pod could ask for."""
    parts = EC2.keys() - WHOLE.keys()
    assert parts
    assert not parts & INSTANCE_GPUS.keys()


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_node_of_each_machine_is_known_by_its_type(name):
    gpu_type, gpu_count = WHOLE[name]
    assert gpu_type_of({INSTANCE_TYPE_LABEL: name}, {}) == gpu_type
    assert name in instance_types_with(gpu_type, gpu_count, "aws")
    assert name not in instance_types_with(gpu_type, gpu_count + 1, "aws")


@pytest.mark.parametrize("provisioner", [Provisioner.KARPENTER, Provisioner.EKS_NODE_GROUPS])
def test_every_gpu_type_of_the_catalog_can_be_selected(provisioner):
    gpu_types = sorted({gpu_type for gpu_type, _ in WHOLE.values()})
    assert selectable_gpu_types(gpu_types, provisioner, 1, {}) == tuple(gpu_types)


def test_karpenter_distinguishes_gpu_types_of_one_chip_by_the_catalog_s_memory():
    """By the chip alone it could add the smaller one."""
    reported = {}
    for name in WHOLE:
        machine = EC2[name]
        found = gpu_type_expressions(Provisioner.KARPENTER, machine.gpu_type, 1, {})
        reported[machine.gpu_type] = found
        for expression in found:
            if expression.key.endswith("/instance-gpu-memory"):
                assert expression.values == (str(machine.gpu_memory_mib),)
    assert len(set(reported.values())) == len(reported)
