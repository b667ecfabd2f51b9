"""The types that all rooms share: workloads, nodes, attempts, reasons, units and errors."""
