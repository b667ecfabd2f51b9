#!/usr/bin/env bash
# Holds the mount namespace of one node (see namespace.py), until the cluster's process 1 ends.
set -euo pipefail
node=$1

# Folders that containerd, runc and the kubelet do not let one choose. In here they are the node's:
# a kubelet would delete the logs and pods of any other that shared them.
for folder in /run/containerd /var/lib/kubelet /var/log/pods /var/log/containers; do
	mkdir -p "$folder" "$node$folder"
	mount --bind "$node$folder" "$folder"
done

touch "$node/ready"
exec sleep infinity
