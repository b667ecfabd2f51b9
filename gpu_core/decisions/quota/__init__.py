"""Quotas: who is entitled to how many GPUs, who may borrow, and who has to give back."""
