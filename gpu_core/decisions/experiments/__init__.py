"""Which configuration costs less, beyond noise; and which runs of a sweep go on."""
