"""What is wrong with an installation, or with the files that people write?"""
