"""A trace under a policy, by the planner that schedules."""

from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.scheduling.cycle.planner import Planner
from gpu_core.decisions.simulation.cluster.engine import SimulationOptions, simulate
from gpu_core.decisions.simulation.cluster.outcomes import Simulation
from gpu_core.decisions.simulation.cluster.run_time_oracle import LearnedRunTimes
from gpu_core.decisions.simulation.cluster.trace import Trace


def simulate_policy(trace: Trace, policy: Policy, options: SimulationOptions) -> Simulation:
    """The outcome of these jobs under this policy, which learns their run times.

    Args:
        trace: Jobs and nodes.
        policy: The policy in force.
        options: What interruptions cost.
    """
    planner = Planner(policy, trace.nodes)
    return simulate(trace, planner, LearnedRunTimes(policy.run_times), options)
