"""`prefect-gpu catalog`: the prices that plans use."""
