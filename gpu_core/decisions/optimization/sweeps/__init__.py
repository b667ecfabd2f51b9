"""Which runs of a sweep get more dollars, and which stay parked?"""
