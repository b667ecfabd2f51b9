"""Why a day cost more or less than expected: parts that add up to the difference."""
