"""Which configuration of inference costs less, beyond noise?"""
