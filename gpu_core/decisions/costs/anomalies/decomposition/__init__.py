"""The causes of a day's unexpected cost, as parts that add up to the difference."""
