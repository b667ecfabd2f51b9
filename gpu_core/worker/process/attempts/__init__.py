"""The processes of attempts: what launches, follows and samples them."""
