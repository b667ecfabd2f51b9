"""What can be rented or owned: GPU types, instance types, and what each costs where."""
