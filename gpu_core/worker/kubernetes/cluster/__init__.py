"""What a worker knows of its cluster, and what it writes apart from Jobs."""
