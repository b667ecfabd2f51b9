"""Which change would save money, how sure is that, and what did it save when it was made?"""
