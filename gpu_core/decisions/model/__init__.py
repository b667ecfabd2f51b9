"""What all rooms speak of: workloads, nodes, attempts, reasons, units and errors."""
