"""What is wrong with a file that people write, before a server or a cluster reads it?"""
