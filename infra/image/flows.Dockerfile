# An image for runs: the worker's, and the flows of this repository. One of your own is made the same way.
# Build it from the repository's root:
# docker build -f infra/image/flows.Dockerfile --build-arg WORKER=prefect-gpu -t prefect-gpu-flows .
ARG WORKER=prefect-gpu
FROM ${WORKER}
# Where Prefect looks for the code of an image. Anybody may write there: without an address of MLflow
# a run keeps its records in this folder, and they go with its pod.
USER 0
RUN chmod 1777 /opt/prefect
USER 1001:0
WORKDIR /opt/prefect
COPY flows flows
